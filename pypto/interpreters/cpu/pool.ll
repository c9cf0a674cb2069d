; The worker threads: they run the blocks of spmd launches and the turns of parallel loops. One launch has them at a time; a second one
; that comes meanwhile runs on its caller's thread alone, so nobody ever waits for the pool.
;
; A launch opens a generation (odd numbers are open), workers join it, take indices from @next, and leave; the launch closes it and waits
; until those that joined have left. A worker that has nothing to do spins for some microseconds, then sleeps on @bell.
;
; Every running thread has a record of 64 numbers, %err: see the table in native.py.

@wanted = global i64 1                          ; threads, the caller's included
@started = internal global i64 0                ; workers there are
@threads = internal global [256 x i64] zeroinitializer
@quit = internal global i32 0
@busy = internal global i32 0                   ; 1 while a launch has the workers
@state = internal global i64 0, align 64        ; generation << 32 | workers that joined
@sleeping = internal global i32 0
@lock = internal global [16 x i64] zeroinitializer, align 64
@bell = internal global [16 x i64] zeroinitializer, align 64
@sigblock = global i32 0
@sigset = global i32 2
; the launch that is open
@body = internal global ptr null
@context = internal global ptr null
@count = internal global i64 0
@grain = internal global i64 1
@ordered = internal global i64 0
@joiners = internal global i64 0
@room = internal global i64 0
@next = internal global i64 0, align 64
@committed = internal global i64 0, align 64    ; blocks before this one have ended, in ordered launches
@failed = internal global i64 0, align 64       ; the first index known to fail; -1 after an interrupt
@status = internal global i64 0
@numbers = internal global [48 x i64] zeroinitializer

declare ptr @calloc(i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i64 @pthread_self()
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare i32 @usleep(i32)
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; ---- workers ----

define internal ptr @worker(ptr %ignored) {
entry:
  %err = alloca [64 x i64], align 64
  %mode = alloca i32, align 4
  %memory = alloca ptr, align 8
  %size = alloca i64, align 8
  store i32 8064, ptr %mode, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
  call void @llvm.memset.p0.i64(ptr %err, i8 0, i64 512, i1 false)
  %role = getelementptr i64, ptr %err, i64 50
  store i64 1, ptr %role, align 8
  %turn = getelementptr i64, ptr %err, i64 51
  store i64 -1, ptr %turn, align 8
  store ptr null, ptr %memory, align 8
  store i64 0, ptr %size, align 8
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %seen, %awake ], [ %seen, %join ], [ %generation, %enough ], [ %generation, %leave ]
  br label %spin
spin:
  %turns = phi i64 [ 0, %wait ], [ %turned, %pausing ]
  %s = load atomic i64, ptr @state acquire, align 8
  %generation = lshr i64 %s, 32
  %go = call i1 @open_to(i64 %s, i64 %seen)
  br i1 %go, label %asked, label %idle
idle:
  %q = load atomic i32, ptr @quit monotonic, align 4
  %leaving = icmp ne i32 %q, 0
  br i1 %leaving, label %exit, label %pausing
pausing:
  call void @llvm.x86.sse2.pause()
  %turned = add i64 %turns, 1
  %more = icmp slt i64 %turned, 400
  br i1 %more, label %spin, label %sleep
sleep:
  %l = call i32 @pthread_mutex_lock(ptr @lock)
  %one = atomicrmw add ptr @sleeping, i32 1 seq_cst
  br label %check
check:
  %s2 = load atomic i64, ptr @state seq_cst, align 8
  %q2 = load atomic i32, ptr @quit seq_cst, align 4
  %going = call i1 @open_to(i64 %s2, i64 %seen)
  %quitting = icmp ne i32 %q2, 0
  %up = or i1 %going, %quitting
  br i1 %up, label %awake, label %doze
doze:
  %c = call i32 @pthread_cond_wait(ptr @bell, ptr @lock)
  br label %check
awake:
  %less = atomicrmw sub ptr @sleeping, i32 1 seq_cst
  %u = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %wait
asked:
  %joined = and i64 %s, 4294967295
  %most = load i64, ptr @joiners, align 8
  %full = icmp sge i64 %joined, %most
  br i1 %full, label %enough, label %join
enough:
  br label %wait
join:
  %s1 = add i64 %s, 1
  %pair = cmpxchg ptr @state, i64 %s, i64 %s1 acq_rel acquire
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %in, label %wait
in:
  %need = load i64, ptr @room, align 8
  %have = load i64, ptr %size, align 8
  %small = icmp slt i64 %have, %need
  br i1 %small, label %grow, label %work
grow:
  %old = load ptr, ptr %memory, align 8
  call void @free(ptr %old)
  %bytes = add i64 %need, 4096
  %fresh = call ptr @calloc(i64 1, i64 %bytes)
  store ptr %fresh, ptr %memory, align 8
  %none = icmp eq ptr %fresh, null
  %kept = select i1 %none, i64 0, i64 %need
  store i64 %kept, ptr %size, align 8
  br i1 %none, label %leave, label %work
work:
  %raw = load ptr, ptr %memory, align 8
  %arena = call ptr @aligned(ptr %raw)
  call void @share(ptr %arena, ptr %err)
  br label %leave
leave:
  %left = atomicrmw sub ptr @state, i64 1 acq_rel
  br label %wait
exit:
  %last = load ptr, ptr %memory, align 8
  call void @free(ptr %last)
  ret ptr null
}

define internal i1 @open_to(i64 %s, i64 %seen) {
  %generation = lshr i64 %s, 32
  %low = and i64 %generation, 1
  %open = icmp ne i64 %low, 0
  %new = icmp ne i64 %generation, %seen
  %both = and i1 %open, %new
  ret i1 %both
}

define internal ptr @aligned(ptr %p) {
  %n = ptrtoint ptr %p to i64
  %up = add i64 %n, 4095
  %down = and i64 %up, -4096
  %q = inttoptr i64 %down to ptr
  ret ptr %q
}

; Take indices until there are none. Indices are taken in ascending order, and what lies below a failure is still run: so the failure
; that is reported is the one that running in order would have met first.
define internal void @share(ptr %arena, ptr %err) {
entry:
  %body = load ptr, ptr @body, align 8
  %context = load ptr, ptr @context, align 8
  %count = load i64, ptr @count, align 8
  %grain = load i64, ptr @grain, align 8
  %inorder = load i64, ptr @ordered, align 8
  %ordered = icmp ne i64 %inorder, 0
  %turn = getelementptr i64, ptr %err, i64 51
  %interrupted = getelementptr i64, ptr %err, i64 52
  %clock = getelementptr i64, ptr %err, i64 48
  br label %grab
grab:
  %first = atomicrmw add ptr @next, i64 %grain monotonic
  %some = icmp slt i64 %first, %count
  br i1 %some, label %chunk, label %done
chunk:
  %far = add i64 %first, %grain
  %past = icmp sgt i64 %far, %count
  %end = select i1 %past, i64 %count, i64 %far
  br label %one
one:
  %i = phi i64 [ %first, %chunk ], [ %following, %fine ]
  %f = load atomic i64, ptr @failed monotonic, align 8
  %wanted = icmp slt i64 %i, %f
  br i1 %wanted, label %run, label %done
run:
  %mine = select i1 %ordered, i64 %i, i64 -1
  store i64 %mine, ptr %turn, align 8
  %s = call i64 %body(ptr %context, ptr %arena, ptr %err, i64 %i)
  %good = icmp eq i64 %s, 0
  br i1 %good, label %ran, label %bad
ran:
  br i1 %ordered, label %commit, label %fine
commit:
  %t = call i64 @pypto_turn(ptr %err)
  %mayend = icmp eq i64 %t, 0
  br i1 %mayend, label %ended, label %bad
ended:
  %after = add i64 %i, 1
  store atomic i64 %after, ptr @committed release, align 8
  br label %fine
fine:
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %end
  br i1 %more, label %one, label %grab
bad:
  %code = phi i64 [ %s, %run ], [ %t, %commit ]
  %given_up = icmp eq i64 %code, -1
  br i1 %given_up, label %why, label %tell
why:
  %w = load i64, ptr %interrupted, align 8
  %signal = icmp ne i64 %w, 0
  br i1 %signal, label %stop, label %done
stop:
  store i64 -1, ptr @status, align 8
  store atomic i64 -1, ptr @failed release, align 8
  br label %done
tell:
  call void @report(i64 %i, i64 %code, ptr %err)
  br label %done
done:
  store i64 -1, ptr %turn, align 8
  ret void
}

define internal void @report(i64 %i, i64 %code, ptr %err) {
  %l = call i32 @pthread_mutex_lock(ptr @lock)
  %f = load atomic i64, ptr @failed acquire, align 8
  %first = icmp slt i64 %i, %f
  br i1 %first, label %keep, label %out
keep:
  store i64 %code, ptr @status, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr @numbers, ptr %err, i64 384, i1 false)
  store atomic i64 %i, ptr @failed release, align 8
  br label %out
out:
  %u = call i32 @pthread_mutex_unlock(ptr @lock)
  ret void
}

; Before a block's first atomic update: wait until all blocks before it have ended. -1 if they will not.
define i64 @pypto_turn(ptr %err) {
entry:
  %p = getelementptr i64, ptr %err, i64 51
  %mine = load i64, ptr %p, align 8
  %free = icmp slt i64 %mine, 0
  br i1 %free, label %go, label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %c = load atomic i64, ptr @committed acquire, align 8
  %now = icmp eq i64 %c, %mine
  br i1 %now, label %go, label %stuck
stuck:
  %f = load atomic i64, ptr @failed acquire, align 8
  %over = icmp slt i64 %f, %mine
  br i1 %over, label %never, label %rest
rest:
  %i = call i64 @pause_once(i64 %n, ptr %err)
  %stop = icmp ne i64 %i, 0
  br i1 %stop, label %never, label %again
again:
  %n1 = add i64 %n, 1
  br label %look
go:
  ret i64 0
never:
  ret i64 -1
}

; One step of waiting for another thread: spin at first, then let others run, then sleep; signals are looked at meanwhile.
define internal i64 @pause_once(i64 %n, ptr %err) {
  %early = icmp slt i64 %n, 2000
  br i1 %early, label %spin, label %later
spin:
  call void @llvm.x86.sse2.pause()
  ret i64 0
later:
  %soon = icmp slt i64 %n, 2200
  br i1 %soon, label %yield, label %sleep
yield:
  %y = call i32 @sched_yield()
  ret i64 0
sleep:
  %z = call i32 @usleep(i32 100)
  %part = and i64 %n, 255
  %look = icmp eq i64 %part, 0
  br i1 %look, label %poll, label %quiet
quiet:
  ret i64 0
poll:
  %r = call i64 @pypto_poll(ptr %err)
  ret i64 %r
}

; ---- launches ----

; Run body(context, arena, err, i) for 0 <= i < count. %cost: nanoseconds that one is thought to take.
define i64 @pypto_parallel(ptr %body, ptr %context, i64 %count, i64 %cost, i64 %ordered, ptr %arena, ptr %err, i64 %room) {
entry:
  %prole = getelementptr i64, ptr %err, i64 50
  %role = load i64, ptr %prole, align 8
  %nested = icmp ne i64 %role, 0
  %few = icmp slt i64 %count, 2
  %work = mul i64 %cost, %count
  %little = icmp slt i64 %work, 20000
  %plimit = getelementptr i64, ptr %err, i64 53
  %limit = load i64, ptr %plimit, align 8
  %single = icmp slt i64 %limit, 2
  %a = or i1 %nested, %few
  %b = or i1 %little, %single
  %alone = or i1 %a, %b
  br i1 %alone, label %serial, label %claim
claim:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acq_rel acquire
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %mine, label %serial
mine:
  %helpers = add i64 %limit, -1
  %others = add i64 %count, -1
  %fewer = icmp slt i64 %others, %helpers
  %wish = select i1 %fewer, i64 %others, i64 %helpers
  %there = call i64 @spawned(i64 %wish)
  %nobody = icmp eq i64 %there, 0
  br i1 %nobody, label %giveup, label %go
giveup:
  store atomic i32 0, ptr @busy release, align 4
  br label %serial
go:
  call void @release_gil(ptr %err)
  store ptr %body, ptr @body, align 8
  store ptr %context, ptr @context, align 8
  store i64 %count, ptr @count, align 8
  store i64 %ordered, ptr @ordered, align 8
  store i64 %wish, ptr @joiners, align 8
  store i64 %room, ptr @room, align 8
  %safe = add i64 %cost, 1
  %ratio = sdiv i64 2000, %safe
  %threads = add i64 %wish, 1
  %parts = mul i64 %threads, 4
  %fair = sdiv i64 %count, %parts
  %m1 = call i64 @llvm.smin.i64(i64 %ratio, i64 %fair)
  %m2 = call i64 @llvm.smax.i64(i64 %m1, i64 1)
  store i64 %m2, ptr @grain, align 8
  store i64 0, ptr @next, align 8
  store i64 0, ptr @committed, align 8
  store i64 9223372036854775807, ptr @failed, align 8
  store i64 0, ptr @status, align 8
  %opened = atomicrmw add ptr @state, i64 4294967296 seq_cst
  %asleep = load atomic i32, ptr @sleeping seq_cst, align 4
  %ring = icmp ne i32 %asleep, 0
  br i1 %ring, label %wake, label %help
wake:
  %l = call i32 @pthread_mutex_lock(ptr @lock)
  %bc = call i32 @pthread_cond_broadcast(ptr @bell)
  %u = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %help
help:
  call void @share(ptr %arena, ptr %err)
  %closed = atomicrmw add ptr @state, i64 4294967296 seq_cst
  br label %drain
drain:
  %n = phi i64 [ 0, %help ], [ %n1, %onward ]
  %s = load atomic i64, ptr @state acquire, align 8
  %in = and i64 %s, 4294967295
  %empty = icmp eq i64 %in, 0
  br i1 %empty, label %over, label %hold
hold:
  %p = call i64 @pause_once(i64 %n, ptr %err)
  %cut = icmp ne i64 %p, 0
  br i1 %cut, label %stop, label %onward
stop:
  store i64 -1, ptr @status, align 8
  store atomic i64 -1, ptr @failed release, align 8
  br label %onward
onward:
  %n1 = add i64 %n, 1
  br label %drain
over:
  %status = load i64, ptr @status, align 8
  %good = icmp sle i64 %status, 0
  br i1 %good, label %finish, label %failure
failure:
  call void @llvm.memcpy.p0.p0.i64(ptr %err, ptr @numbers, i64 384, i1 false)
  br label %finish
finish:
  store atomic i32 0, ptr @busy release, align 4
  ret i64 %status
serial:
  %i = phi i64 [ 0, %entry ], [ 0, %claim ], [ 0, %giveup ], [ %i1, %fine ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %out
one:
  %r = call i64 %body(ptr %context, ptr %arena, ptr %err, i64 %i)
  %ok = icmp eq i64 %r, 0
  br i1 %ok, label %fine, label %failed
fine:
  %i1 = add i64 %i, 1
  br label %serial
failed:
  ret i64 %r
out:
  ret i64 0
}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; Start workers until there are %wish; how many there are. Where the system gives no more, there are fewer.
define internal i64 @spawned(i64 %wish) {
entry:
  %mask = alloca [32 x i64], align 16
  %was = alloca [32 x i64], align 16
  %n0 = load i64, ptr @started, align 8
  %enough = icmp sge i64 %n0, %wish
  br i1 %enough, label %out, label %prepare
prepare:
  %f = call i32 @sigfillset(ptr %mask)
  %how = load i32, ptr @sigblock, align 4
  %b = call i32 @pthread_sigmask(i32 %how, ptr %mask, ptr %was)  ; signals are for Python's threads
  store i32 0, ptr @quit, align 4
  br label %next
next:
  %n = phi i64 [ %n0, %prepare ], [ %n1, %started1 ]
  %more = icmp slt i64 %n, %wish
  %room = icmp slt i64 %n, 255
  %go = and i1 %more, %room
  br i1 %go, label %start, label %restore
start:
  %place = getelementptr i64, ptr @threads, i64 %n
  %r = call i32 @pthread_create(ptr %place, ptr null, ptr @worker, ptr null)
  %ok = icmp eq i32 %r, 0
  br i1 %ok, label %started1, label %restore
started1:
  %n1 = add i64 %n, 1
  store i64 %n1, ptr @started, align 8
  br label %next
restore:
  %set = load i32, ptr @sigset, align 4
  %m = call i32 @pthread_sigmask(i32 %set, ptr %was, ptr null)
  br label %out
out:
  %there = load i64, ptr @started, align 8
  ret i64 %there
}

; End the workers, if no launch has them. 1 if they are gone.
define i64 @pypto_stop() {
entry:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acq_rel acquire
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %stop, label %no
stop:
  store atomic i32 1, ptr @quit seq_cst, align 4
  %l = call i32 @pthread_mutex_lock(ptr @lock)
  %bc = call i32 @pthread_cond_broadcast(ptr @bell)
  %u = call i32 @pthread_mutex_unlock(ptr @lock)
  %n = load i64, ptr @started, align 8
  br label %next
next:
  %i = phi i64 [ 0, %stop ], [ %i1, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %gone
one:
  %place = getelementptr i64, ptr @threads, i64 %i
  %thread = load i64, ptr %place, align 8
  %j = call i32 @pthread_join(i64 %thread, ptr null)
  %i1 = add i64 %i, 1
  br label %next
gone:
  store i64 0, ptr @started, align 8
  store atomic i32 0, ptr @busy release, align 4
  ret i64 1
no:
  ret i64 0
}

; Set everything up; also in a child after fork, where there are no workers any more, whatever the parent was doing.
define void @pypto_reset() {
  store i64 0, ptr @started, align 8
  store i32 0, ptr @quit, align 4
  store i32 0, ptr @sleeping, align 4
  store i64 0, ptr @state, align 8
  %m = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %c = call i32 @pthread_cond_init(ptr @bell, ptr null)
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

define i64 @pypto_workers() {
  %n = load i64, ptr @started, align 8
  ret i64 %n
}
