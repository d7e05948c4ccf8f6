// Package histories checks what many workers saw of the locks that they shared.
//
// Every worker notes when it asked for a lock, was granted it, held it for certain, wrote under its token, lost it or gave it
// back. The notes are a history: operations with a beginning and an end, of which those that overlap may have taken effect in
// either order. Porcupine searches for an order in which a fenced mutex, a model of some forty lines, could have answered all
// of them so. If there is none, the history is illegal: it shows two holders, a token that went back, a late write that was
// accepted, or a Grant after a Release.
//
// There is a model for each kind of lock. A read/write lock also has readers: a reader reads what was written last, and no
// writer changes it while the reader holds. A semaphore has a number of permits, and each Grant is of a younger contender
// than all before. An election is a fenced mutex, and so is an unfair lock, though no model knows which contender is next.
//
// A cached lock is a fenced mutex, too. Its fence is the pair of Token and Turn, which grows from Grant to Grant. The Turn of
// every other lock is 0. Each of three sessions hands a lock on among its own workers. Some of its acquisitions are not
// cached, and workers of a fourth session come in between, alone or with a multi-lock.
//
// A multi-lock is in the history of each member, with the same token. In some histories Revoke asks for locks: a holder that
// loses its lock for that was asked, and every holder at the call is gone when Revoke returns nil.
//
// Three kinds of histories are recorded:
//
//   - in virtual time, on zktest, with sessions that expire, are cut, muted or stranded behind a follower without
//     a leader;
//   - in this process, on a real ensemble with servers that are killed while coordinators are partitioned away;
//   - in processes of their own, which are halted (SIGSTOP) for longer than the session timeout while they hold a
//     lock, or while the node of a cached lock is idle. Each process hands the cached lock on among its workers. No turn
//     may follow under the old node when the process is continued.
//
// The last kind also runs the classic workloads on locks, in which a set is read, kept for a while and written back under a
// lock, so that two holders show as lost updates: a set in the memory of a process that trusts the Grant alone, one that asks
// Valid before the write, one of which the keeper compares tokens, a set in ZooKeeper that any client may write, and one that
// is written with Txn. A halted process does not know that it was halted, so the first and the fourth of them lose updates
// with any lock service. That figure stands beside the others, and beside that of the lock in the ZooKeeper client library.
//
// Run it with
//
//	go test -race ./coordinator/reliability/histories
//	ZKGRANT_RELIABILITY=1 go test -v ./coordinator/reliability/histories    # at full length
//
// The seed of a history in virtual time is printed when it is illegal, with the command that repeats it. The drawing
// of an illegal history, a page for a browser, is kept in the folder for temporary files, and the failure says where.
package histories
