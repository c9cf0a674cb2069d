; Entering compiled code: memory, floating-point mode, Python's lock, signals; and the quick way in from Python.

@seats = internal global [64 x [4 x i64]] zeroinitializer, align 64   ; per seat: state, memory, size
@main_thread = global i64 0                                          ; the one whose signals Python handles

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)

; ---- buffers of the orchestration, in a list ----

define ptr @pypto_new(ptr %heap, i64 %size) {
  %n = add i64 %size, 64
  %p = call ptr @calloc(i64 1, i64 %n)
  %data = call ptr @listed(ptr %heap, ptr %p)
  ret ptr %data
}

; The same for what is written before it is read: nobody sees what was there before.
define ptr @pypto_raw(ptr %heap, i64 %size) {
  %n = add i64 %size, 64
  %p = call ptr @malloc(i64 %n)
  %data = call ptr @listed(ptr %heap, ptr %p)
  ret ptr %data
}

define internal ptr @listed(ptr %heap, ptr %p) {
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %ok
fail:
  ret ptr null
ok:
  %head = load ptr, ptr %heap, align 8
  store ptr %head, ptr %p, align 8
  store ptr %p, ptr %heap, align 8
  %data = getelementptr i8, ptr %p, i64 64
  ret ptr %data
}

define void @pypto_free(ptr %heap, ptr %until) {
  br label %head
head:
  %p = load ptr, ptr %heap, align 8
  %done = icmp eq ptr %p, %until
  br i1 %done, label %out, label %one
one:
  %next = load ptr, ptr %p, align 8
  store ptr %next, ptr %heap, align 8
  call void @free(ptr %p)
  br label %head
out:
  ret void
}

; ---- on-chip memory of callers: a few pieces that stay, for whoever is first ----

define internal ptr @take(i64 %room) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %taken ]
  %more = icmp slt i64 %i, 64
  br i1 %more, label %try, label %extra
try:
  %seat = getelementptr [4 x i64], ptr @seats, i64 %i
  %pair = cmpxchg ptr %seat, i64 0, i64 1 acquire monotonic
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %got, label %taken
taken:
  %i1 = add i64 %i, 1
  br label %next
extra:
  %fresh = call ptr @calloc(i64 1, i64 32)
  %broke = icmp eq ptr %fresh, null
  br i1 %broke, label %fail, label %mark
mark:
  store i64 2, ptr %fresh, align 8
  br label %got
got:
  %p = phi ptr [ %seat, %try ], [ %fresh, %mark ]
  %memory = getelementptr i64, ptr %p, i64 1
  %psize = getelementptr i64, ptr %p, i64 2
  %size = load i64, ptr %psize, align 8
  %small = icmp slt i64 %size, %room
  br i1 %small, label %grow, label %ready
grow:
  %old = load ptr, ptr %memory, align 8
  call void @free(ptr %old)
  %bytes = add i64 %room, 4096
  %raw = call ptr @calloc(i64 1, i64 %bytes)
  store ptr %raw, ptr %memory, align 8
  %none = icmp eq ptr %raw, null
  %now = select i1 %none, i64 0, i64 %room
  store i64 %now, ptr %psize, align 8
  br i1 %none, label %giveback, label %ready
giveback:
  call void @leave(ptr %p)
  br label %fail
ready:
  ret ptr %p
fail:
  ret ptr null
}

define internal void @leave(ptr %p) {
  %kind = load i64, ptr %p, align 8
  %temporary = icmp eq i64 %kind, 2
  br i1 %temporary, label %drop, label %keep
drop:
  %memory = getelementptr i64, ptr %p, i64 1
  %raw = load ptr, ptr %memory, align 8
  call void @free(ptr %raw)
  call void @free(ptr %p)
  ret void
keep:
  store atomic i64 0, ptr %p release, align 8
  ret void
}

; After fork: threads that held a seat are not in the child. What they held stays theirs: it was in use at the time.
define void @pypto_seats() {
  call void @llvm.memset.p0.i64(ptr @seats, i8 0, i64 2048, i1 false)
  ret void
}

; ---- Python's lock and signals ----

define internal void @release_gil(ptr %err) {
  %p = getelementptr i64, ptr %err, i64 49
  %state = load ptr, ptr %p, align 8
  %held = icmp eq ptr %state, null
  %prole = getelementptr i64, ptr %err, i64 50
  %role = load i64, ptr %prole, align 8
  %caller = icmp eq i64 %role, 0
  %go = and i1 %held, %caller
  br i1 %go, label %release, label %out
release:
  %s = call ptr @PyEval_SaveThread()
  store ptr %s, ptr %p, align 8
  br label %out
out:
  ret void
}

; Called when the time a thread was thought to need is used up. -1 if what runs is to end: then an exception is set.
define i64 @pypto_poll(ptr %err) {
entry:
  %pclock = getelementptr i64, ptr %err, i64 48
  store i64 20000000, ptr %pclock, align 8
  %pblock = getelementptr i64, ptr %err, i64 55
  %block = load ptr, ptr %pblock, align 8
  %waits = icmp ne ptr %block, null
  br i1 %waits, label %away, label %home
away:
  %answer = call i64 @ask_home(ptr %block)
  ret i64 %answer
home:
  %prole = getelementptr i64, ptr %err, i64 50
  %role = load i64, ptr %prole, align 8
  %helper = icmp ne i64 %role, 0
  br i1 %helper, label %worker, label %caller
worker:
  %f = load atomic i64, ptr @failed acquire, align 8
  %cut = icmp eq i64 %f, -1
  %end = select i1 %cut, i64 -1, i64 0
  ret i64 %end
caller:
  %p = getelementptr i64, ptr %err, i64 49
  %state = load ptr, ptr %p, align 8
  %pmain = getelementptr i64, ptr %err, i64 54
  %main = load i64, ptr %pmain, align 8
  %signals = icmp ne i64 %main, 0
  %held = icmp eq ptr %state, null
  br i1 %signals, label %look, label %quiet
quiet:
  call void @release_gil(ptr %err)
  ret i64 0
look:
  br i1 %held, label %ask, label %lock
lock:
  call void @PyEval_RestoreThread(ptr %state)
  store ptr null, ptr %p, align 8
  br label %ask
ask:
  %r = call i32 @PyErr_CheckSignals()
  %raised = icmp ne i32 %r, 0
  br i1 %raised, label %interrupted, label %quiet
interrupted:
  %pi = getelementptr i64, ptr %err, i64 52
  store i64 1, ptr %pi, align 8
  ret i64 -1
}

; ---- entering ----

; 0: done; above 0: the check that failed, its numbers in %numbers; -1: a Python exception is set; -2: no on-chip memory.
define i64 @pypto_run(ptr %main, ptr %args, ptr %numbers, i64 %room, i64 %limit, i64 %cost) {
entry:
  %err = alloca [64 x i64], align 64
  %heap = alloca ptr, align 8
  %was = alloca i32, align 4
  %now = alloca i32, align 4
  %seat = call ptr @take(i64 %room)
  %none = icmp eq ptr %seat, null
  br i1 %none, label %nomemory, label %ready
nomemory:
  ret i64 -2
ready:
  %tail = getelementptr i64, ptr %err, i64 48
  call void @llvm.memset.p0.i64(ptr %tail, i8 0, i64 128, i1 false)
  store i64 30000, ptr %tail, align 8
  %turn = getelementptr i64, ptr %err, i64 51
  store i64 -1, ptr %turn, align 8
  %plimit = getelementptr i64, ptr %err, i64 53
  %all = load i64, ptr @wanted, align 8
  %any = icmp eq i64 %limit, 0
  %threads = select i1 %any, i64 %all, i64 %limit
  store i64 %threads, ptr %plimit, align 8
  %self = call i64 @pthread_self()
  %first = load i64, ptr @main_thread, align 8
  %ismain = icmp eq i64 %self, %first
  %mainflag = zext i1 %ismain to i64
  %pmain = getelementptr i64, ptr %err, i64 54
  store i64 %mainflag, ptr %pmain, align 8
  store ptr null, ptr %heap, align 8
  %memory = getelementptr i64, ptr %seat, i64 1
  %raw = load ptr, ptr %memory, align 8
  %arena = call ptr @aligned(ptr %raw)
  %long = icmp sgt i64 %cost, 30000
  br i1 %long, label %unlock, label %go
unlock:
  call void @release_gil(ptr %err)
  br label %go
go:
  call void @llvm.x86.sse.stmxcsr(ptr %was)
  store i32 8064, ptr %now, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %now)
  %status = call i64 %main(ptr %arena, ptr %err, ptr %heap, ptr %args)
  call void @pypto_free(ptr %heap, ptr null)
  call void @llvm.x86.sse.ldmxcsr(ptr %was)
  call void @leave(ptr %seat)
  %pstate = getelementptr i64, ptr %err, i64 49
  %state = load ptr, ptr %pstate, align 8
  %held = icmp eq ptr %state, null
  br i1 %held, label %check, label %relock
relock:
  call void @PyEval_RestoreThread(ptr %state)
  br label %check
check:
  %failed = icmp sgt i64 %status, 0
  br i1 %failed, label %tell, label %out
tell:
  call void @llvm.memcpy.p0.p0.i64(ptr %numbers, ptr %err, i64 384, i1 false)
  br label %out
out:
  ret i64 %status
}

; ---- the quick way: look at the arguments, and run if they are what the table was made for ----

; %table, in words: 0 arguments; 1 the type of arrays; 2 main; 3 room; 4 threads; 5 slots; 6 numbers; 7 cost; 8, 9 the types of floats and
; integers; 10 where a pointer to an object's type lies; 11 where an array's fields begin; 16.. the slots; then 8 words per argument:
; 0 kind; 1 slot; arrays: 2 dtype, 3 axes, 4 extents, 5 flags wanted, 6 bytes; others: 2 the object, or 3, 4 lowest and highest number.
; Kinds: 0 read, 1 written, 2 written and read (zeroed first), 3 an object, 4 FP32, 5 integer. -3: something is different.
define i64 @pypto_quick(ptr %args, ptr %table) {
entry:
  %over = alloca i32, align 4
  %was = alloca i32, align 4
  %now = alloca i32, align 4
  %pn = getelementptr i64, ptr %table, i64 0
  %n = load i64, ptr %pn, align 8
  %given = call i64 @PyTuple_Size(ptr %args)
  %same = icmp eq i64 %given, %n
  br i1 %same, label %begin, label %other
begin:
  %ptype = getelementptr i64, ptr %table, i64 1
  %arraytype = load i64, ptr %ptype, align 8
  %pslots = getelementptr i64, ptr %table, i64 5
  %slots = load i64, ptr %pslots, align 8
  %pfloat = getelementptr i64, ptr %table, i64 8
  %floattype = load i64, ptr %pfloat, align 8
  %pint = getelementptr i64, ptr %table, i64 9
  %inttype = load i64, ptr %pint, align 8
  %pwhere = getelementptr i64, ptr %table, i64 10
  %typeat = load i64, ptr %pwhere, align 8
  %pfields = getelementptr i64, ptr %table, i64 11
  %fieldsat = load i64, ptr %pfields, align 8
  %template = getelementptr i64, ptr %table, i64 16
  %rows = getelementptr i64, ptr %template, i64 %slots
  %record = alloca i64, i64 %slots, align 16
  %size = mul i64 %slots, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %record, ptr %template, i64 %size, i1 false)
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i1, %put ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %overlaps
one:
  %row = getelementptr [8 x i64], ptr %rows, i64 %i
  %kind = load i64, ptr %row, align 8
  %object = call ptr @PyTuple_GetItem(ptr %args, i64 %i)
  %pslot = getelementptr i64, ptr %row, i64 1
  %slot = load i64, ptr %pslot, align 8
  %pwant = getelementptr i64, ptr %row, i64 2
  %want = load i64, ptr %pwant, align 8
  %p3 = getelementptr i64, ptr %row, i64 3
  %w3 = load i64, ptr %p3, align 8
  %p4 = getelementptr i64, ptr %row, i64 4
  %w4 = load i64, ptr %p4, align 8
  %ptypeof = getelementptr i8, ptr %object, i64 %typeat
  %type = load i64, ptr %ptypeof, align 8
  switch i64 %kind, label %array [ i64 3, label %identity
                                   i64 4, label %float
                                   i64 5, label %integer ]
identity:
  %id = ptrtoint ptr %object to i64
  %itis = icmp eq i64 %id, %want
  br i1 %itis, label %skip, label %other
skip:
  br label %put
float:
  %isfloat = icmp eq i64 %type, %floattype
  br i1 %isfloat, label %single, label %other
single:
  %double = call double @PyFloat_AsDouble(ptr %object)
  call void @llvm.x86.sse.stmxcsr(ptr %was)
  store i32 8064, ptr %now, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %now)
  %f = call float @narrowed(double %double)
  call void @llvm.x86.sse.ldmxcsr(ptr %was)
  %fbits = bitcast float %f to i32
  %fword = zext i32 %fbits to i64
  %exponent = and i32 %fbits, 2139095040
  %finite = icmp ne i32 %exponent, 2139095040
  br i1 %finite, label %put, label %other          ; what does not fit is the other way's business
integer:
  %isint = icmp eq i64 %type, %inttype
  br i1 %isint, label %whole1, label %other
whole1:
  store i32 0, ptr %over, align 4
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %over)
  %o = load i32, ptr %over, align 4
  %fits = icmp eq i32 %o, 0
  %lowenough = icmp sle i64 %number, %w4
  %highenough = icmp sge i64 %number, %w3
  %in1 = and i1 %lowenough, %highenough
  %in2 = and i1 %in1, %fits
  br i1 %in2, label %put, label %other
array:
  %isarray = icmp eq i64 %type, %arraytype
  br i1 %isarray, label %fields, label %other
fields:
  %base = getelementptr i8, ptr %object, i64 %fieldsat
  %data = load i64, ptr %base, align 8
  %pnd = getelementptr i8, ptr %base, i64 8
  %nd32 = load i32, ptr %pnd, align 4
  %nd = sext i32 %nd32 to i64
  %pdims = getelementptr i8, ptr %base, i64 16
  %dims = load ptr, ptr %pdims, align 8
  %pdtype = getelementptr i8, ptr %base, i64 40
  %dtype = load i64, ptr %pdtype, align 8
  %pflags = getelementptr i8, ptr %base, i64 48
  %flags32 = load i32, ptr %pflags, align 4
  %flags = zext i32 %flags32 to i64
  %p5 = getelementptr i64, ptr %row, i64 5
  %need = load i64, ptr %p5, align 8
  %p6 = getelementptr i64, ptr %row, i64 6
  %bytes = load i64, ptr %p6, align 8
  %have = and i64 %flags, %need
  %c1 = icmp eq i64 %have, %need
  %c2 = icmp eq i64 %dtype, %want
  %c3 = icmp eq i64 %nd, %w3
  %c12 = and i1 %c1, %c2
  %c123 = and i1 %c12, %c3
  br i1 %c123, label %extents, label %other
extents:
  %wanted = inttoptr i64 %w4 to ptr
  br label %axis
axis:
  %a = phi i64 [ 0, %extents ], [ %a1, %equal ]
  %another = icmp slt i64 %a, %nd
  br i1 %another, label %extent, label %put
extent:
  %pd = getelementptr i64, ptr %dims, i64 %a
  %d = load i64, ptr %pd, align 8
  %pe = getelementptr i64, ptr %wanted, i64 %a
  %e = load i64, ptr %pe, align 8
  %ok = icmp eq i64 %d, %e
  br i1 %ok, label %equal, label %other
equal:
  %a1 = add i64 %a, 1
  br label %axis
put:
  %value = phi i64 [ 0, %skip ], [ %fword, %single ], [ %number, %whole1 ], [ %data, %axis ]
  %ps = getelementptr i64, ptr %record, i64 %slot
  store i64 %value, ptr %ps, align 8
  %i1 = add i64 %i, 1
  br label %next
overlaps:
  %u = phi i64 [ 0, %next ], [ %u1, %apart ]
  %left = icmp slt i64 %u, %n
  br i1 %left, label %mine, label %zeros
mine:
  %urow = getelementptr [8 x i64], ptr %rows, i64 %u
  %ukind = load i64, ptr %urow, align 8
  %um1 = sub i64 %ukind, 1
  %written = icmp ult i64 %um1, 2
  br i1 %written, label %against, label %apart
against:
  %ulow = call i64 @address(ptr %record, ptr %urow)
  %pub = getelementptr i64, ptr %urow, i64 6
  %ubytes = load i64, ptr %pub, align 8
  %uhigh = add i64 %ulow, %ubytes
  br label %compare
compare:
  %v = phi i64 [ 0, %against ], [ %v1, %clear ], [ %v1, %pass ]
  %rest = icmp slt i64 %v, %n
  br i1 %rest, label %theirs, label %apart
theirs:
  %v1 = add i64 %v, 1
  %vrow = getelementptr [8 x i64], ptr %rows, i64 %v
  %vkind = load i64, ptr %vrow, align 8
  %isarr = icmp slt i64 %vkind, 3
  %notme = icmp ne i64 %v, %u
  %both = and i1 %isarr, %notme
  br i1 %both, label %ranges, label %pass
pass:
  br label %compare
ranges:
  %vlow = call i64 @address(ptr %record, ptr %vrow)
  %pvb = getelementptr i64, ptr %vrow, i64 6
  %vbytes = load i64, ptr %pvb, align 8
  %vhigh = add i64 %vlow, %vbytes
  %x1 = icmp slt i64 %vlow, %uhigh
  %x2 = icmp slt i64 %ulow, %vhigh
  %meets = and i1 %x1, %x2
  br i1 %meets, label %other, label %clear
clear:
  br label %compare
apart:
  %u1 = add i64 %u, 1
  br label %overlaps
zeros:
  %z = phi i64 [ 0, %overlaps ], [ %z1, %zeroed ]
  %some = icmp slt i64 %z, %n
  br i1 %some, label %zone, label %run
zone:
  %zrow = getelementptr [8 x i64], ptr %rows, i64 %z
  %zkind = load i64, ptr %zrow, align 8
  %clearit = icmp eq i64 %zkind, 2
  br i1 %clearit, label %fill, label %zeroed
fill:
  %zlow = call i64 @address(ptr %record, ptr %zrow)
  %zp = inttoptr i64 %zlow to ptr
  %pzb = getelementptr i64, ptr %zrow, i64 6
  %zbytes = load i64, ptr %pzb, align 8
  call void @llvm.memset.p0.i64(ptr %zp, i8 0, i64 %zbytes, i1 false)
  br label %zeroed
zeroed:
  %z1 = add i64 %z, 1
  br label %zeros
run:
  %pmain = getelementptr i64, ptr %table, i64 2
  %main = load ptr, ptr %pmain, align 8
  %proom = getelementptr i64, ptr %table, i64 3
  %room = load i64, ptr %proom, align 8
  %plimit = getelementptr i64, ptr %table, i64 4
  %limit = load i64, ptr %plimit, align 8
  %pnumbers = getelementptr i64, ptr %table, i64 6
  %numbers = load ptr, ptr %pnumbers, align 8
  %pcost = getelementptr i64, ptr %table, i64 7
  %cost = load i64, ptr %pcost, align 8
  %status = call i64 @pypto_run(ptr %main, ptr %record, ptr %numbers, i64 %room, i64 %limit, i64 %cost)
  ret i64 %status
other:
  ret i64 -3
}

define internal i64 @address(ptr %record, ptr %row) {
  %pslot = getelementptr i64, ptr %row, i64 1
  %slot = load i64, ptr %pslot, align 8
  %p = getelementptr i64, ptr %record, i64 %slot
  %a = load i64, ptr %p, align 8
  ret i64 %a
}

; Not inlined: the conversion has to stay between the two changes of the floating-point mode.
define internal float @narrowed(double %x) noinline {
  %f = fptrunc double %x to float
  ret float %f
}
