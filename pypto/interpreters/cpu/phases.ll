; Blocks that wait for each other: each has a stack and on-chip memory of its own, and they take turns on one thread. A block runs until
; its next barrier or its end; when all of them are there, the next phase begins. That is the order of the reference executor.
;
; %state, of a launch: 0 where its stack was left; 1 the body; 2 the context; 3 the record of the thread.
; %block, 16 words each: 0 where its stack was left; 1 its status; 2 whether it has ended; 3 the barrier it waits at; 4 whether it asks
; for signals to be looked at, 5 the answer; 6 its on-chip memory; 7 its index; 8 the state of the launch; 9 what to free.


; Go on with another stack: what a function has to keep is put on this one, whose place is noted, and taken from the other.
define internal void @switch(ptr %save, ptr %to) naked noinline nounwind {
  call void asm sideeffect "pushq %rbp\0Apushq %rbx\0Apushq %r12\0Apushq %r13\0Apushq %r14\0Apushq %r15\0Amovq %rsp, (%rdi)\0Amovq %rsi, %rsp\0Apopq %r15\0Apopq %r14\0Apopq %r13\0Apopq %r12\0Apopq %rbx\0Apopq %rbp\0Aretq", "~{memory}"()
  unreachable
}

; Where a new stack begins: r12 is the block, r13 the function to call with it.
define internal void @begin() naked noinline nounwind {
  call void asm sideeffect "movq %r12, %rdi\0Acallq *%r13\0Aud2", "~{memory}"()
  unreachable
}

define internal void @run_block(ptr %block) noinline {
  %pstate = getelementptr i64, ptr %block, i64 8
  %state = load ptr, ptr %pstate, align 8
  %pbody = getelementptr i64, ptr %state, i64 1
  %body = load ptr, ptr %pbody, align 8
  %pcontext = getelementptr i64, ptr %state, i64 2
  %context = load ptr, ptr %pcontext, align 8
  %perr = getelementptr i64, ptr %state, i64 3
  %err = load ptr, ptr %perr, align 8
  %parena = getelementptr i64, ptr %block, i64 6
  %arena = load ptr, ptr %parena, align 8
  %pindex = getelementptr i64, ptr %block, i64 7
  %index = load i64, ptr %pindex, align 8
  %status = call i64 %body(ptr %context, ptr %arena, ptr %err, i64 %index)
  %pstatus = getelementptr i64, ptr %block, i64 1
  store i64 %status, ptr %pstatus, align 8
  %pended = getelementptr i64, ptr %block, i64 2
  store i64 1, ptr %pended, align 8
  %psite = getelementptr i64, ptr %block, i64 3
  store i64 0, ptr %psite, align 8
  %home = load ptr, ptr %state, align 8
  call void @switch(ptr %block, ptr %home)
  unreachable
}

; Wait until every block of the launch is here. Outside of such a launch there is nobody to wait for.
define i64 @pypto_barrier(ptr %err, i64 %site) {
entry:
  %pblock = getelementptr i64, ptr %err, i64 55
  %block = load ptr, ptr %pblock, align 8
  %alone = icmp eq ptr %block, null
  br i1 %alone, label %out, label %wait
wait:
  %psite = getelementptr i64, ptr %block, i64 3
  store i64 %site, ptr %psite, align 8
  call void @leave_block(ptr %block)
  br label %out
out:
  ret i64 0
}

define internal void @leave_block(ptr %block) {
  %pstate = getelementptr i64, ptr %block, i64 8
  %state = load ptr, ptr %pstate, align 8
  %home = load ptr, ptr %state, align 8
  call void @switch(ptr %block, ptr %home)
  ret void
}

; Signals are looked at on the thread's own stack: Python's handlers know no other.
define internal i64 @ask_home(ptr %block) {
  %pask = getelementptr i64, ptr %block, i64 4
  store i64 1, ptr %pask, align 8
  call void @leave_block(ptr %block)
  %panswer = getelementptr i64, ptr %block, i64 5
  %answer = load i64, ptr %panswer, align 8
  ret i64 %answer
}

; Run body(context, arena, err, i) for 0 <= i < count, phase by phase. What it returns is what the first block that fails returns; the
; barrier where blocks do not meet; -2 where there is no memory.
define i64 @pypto_phases(ptr %body, ptr %context, i64 %count, ptr %err, i64 %room) {
entry:
  %state = alloca [4 x i64], align 16
  %p1 = getelementptr i64, ptr %state, i64 1
  store ptr %body, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %state, i64 2
  store ptr %context, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %state, i64 3
  store ptr %err, ptr %p3, align 8
  %here = getelementptr i64, ptr %err, i64 55
  %none = icmp slt i64 %count, 1
  br i1 %none, label %nothing, label %few
few:
  %many = icmp sgt i64 %count, 65536               ; stacks of more are gigabytes
  br i1 %many, label %poor, label %table
nothing:
  ret i64 0
table:
  %blocks = call ptr @calloc(i64 %count, i64 128)
  %broke = icmp eq ptr %blocks, null
  br i1 %broke, label %poor, label %make
poor:
  ret i64 -2
make:
  %m = phi i64 [ 0, %table ], [ %m1, %made ]
  %making = icmp slt i64 %m, %count
  br i1 %making, label %new, label %round
new:
  %mat = mul i64 %m, 16
  %b = getelementptr i64, ptr %blocks, i64 %mat
  %arenabytes = add i64 %room, 8191
  %aligned = and i64 %arenabytes, -4096
  %bytes = add i64 %aligned, 262144
  %raw = call ptr @malloc(i64 %bytes)
  %missing = icmp eq ptr %raw, null
  br i1 %missing, label %nomemory, label %made
nomemory:
  br label %finish
made:
  %praw = getelementptr i64, ptr %b, i64 9
  store ptr %raw, ptr %praw, align 8
  %arena = call ptr @aligned(ptr %raw)
  %parena = getelementptr i64, ptr %b, i64 6
  store ptr %arena, ptr %parena, align 8
  %pindex = getelementptr i64, ptr %b, i64 7
  store i64 %m, ptr %pindex, align 8
  %pstate = getelementptr i64, ptr %b, i64 8
  store ptr %state, ptr %pstate, align 8
  %last = getelementptr i8, ptr %raw, i64 %bytes
  %lastnumber = ptrtoint ptr %last to i64
  %topnumber = and i64 %lastnumber, -64
  %top = inttoptr i64 %topnumber to ptr
  %sp = getelementptr i8, ptr %top, i64 -56        ; six registers and where to return to
  call void @llvm.memset.p0.i64(ptr %sp, i8 0, i64 56, i1 false)
  %s13 = getelementptr i64, ptr %sp, i64 2
  store ptr @run_block, ptr %s13, align 8
  %s12 = getelementptr i64, ptr %sp, i64 3
  store ptr %b, ptr %s12, align 8
  %sret = getelementptr i64, ptr %sp, i64 6
  store ptr @begin, ptr %sret, align 8
  store ptr %sp, ptr %b, align 8
  %m1 = add i64 %m, 1
  br label %make
round:
  br label %next
next:
  %i = phi i64 [ 0, %round ], [ %i1, %met ]
  %first = phi i64 [ 0, %round ], [ %meant, %met ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %phase
one:
  %at = mul i64 %i, 16
  %block = getelementptr i64, ptr %blocks, i64 %at
  br label %resume
resume:
  store ptr %block, ptr %here, align 8
  %to = load ptr, ptr %block, align 8
  call void @switch(ptr %state, ptr %to)
  store ptr null, ptr %here, align 8
  %pask = getelementptr i64, ptr %block, i64 4
  %ask = load i64, ptr %pask, align 8
  %asks = icmp ne i64 %ask, 0
  br i1 %asks, label %poll, label %stopped
poll:
  store i64 0, ptr %pask, align 8
  %answer = call i64 @pypto_poll(ptr %err)
  %panswer = getelementptr i64, ptr %block, i64 5
  store i64 %answer, ptr %panswer, align 8
  br label %resume
stopped:
  %pstatus = getelementptr i64, ptr %block, i64 1
  %status = load i64, ptr %pstatus, align 8
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %finish, label %compare
compare:
  %psite = getelementptr i64, ptr %block, i64 3
  %site = load i64, ptr %psite, align 8
  %leads = icmp eq i64 %i, 0
  %meant = select i1 %leads, i64 %site, i64 %first
  %same = icmp eq i64 %site, %meant
  br i1 %same, label %met, label %apart
met:
  %i1 = add i64 %i, 1
  br label %next
apart:
  %named = icmp ne i64 %site, 0
  %barrier = select i1 %named, i64 %site, i64 %meant
  br label %finish
phase:
  %over = icmp eq i64 %first, 0
  br i1 %over, label %finish, label %round
finish:
  %result = phi i64 [ -2, %nomemory ], [ %status, %stopped ], [ %barrier, %apart ], [ 0, %phase ]
  br label %drop
drop:
  %d = phi i64 [ 0, %finish ], [ %d1, %dropping ]
  %dropmore = icmp slt i64 %d, %count
  br i1 %dropmore, label %dropping, label %out
dropping:
  %dat = mul i64 %d, 16
  %dblock = getelementptr i64, ptr %blocks, i64 %dat
  %draw = getelementptr i64, ptr %dblock, i64 9
  %dmemory = load ptr, ptr %draw, align 8
  call void @free(ptr %dmemory)
  %d1 = add i64 %d, 1
  br label %drop
out:
  call void @free(ptr %blocks)
  ret i64 %result
}
