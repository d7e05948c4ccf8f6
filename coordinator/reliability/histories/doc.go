// Package histories checks what many workers saw of the locks that they shared.
//
// Every worker records when it requested a lock, was granted it, held it for certain,
// wrote under its token, lost it or released it. The records are a history: operations
// with a beginning and an end. Operations that overlap may have taken effect in either
// order. Porcupine searches for an order in which a fenced lock, the model in model.go,
// could have given all of these answers. If there is none, the history is illegal: it
// shows two holders, a token that went back, a late write that was accepted, or a Grant
// after a Release.
//
// The model knows each kind of lock. A reader reads what was written last, and no writer
// changes it while the reader holds. A semaphore has a number of permits, and each Grant
// goes to a younger contender than all Grants before. The fence of a cached lock is the
// pair of Token and Turn, which grows from Grant to Grant. A multi-lock is in the history
// of each member, with the same token. A holder loses its lock to Revoke only after a
// revocation request, and every holder at the call is gone when Revoke returns nil.
//
// Histories are recorded on a real ensemble: in this process, while servers are killed
// and coordinators are partitioned away, and in processes that are halted (SIGSTOP) for
// longer than the session timeout, while they hold a lock or while the node of a cached
// lock is idle. schedules checks the same in virtual time: exclusion, order, tokens,
// permits, turns, revocations and crash reports.
//
// The processes also run the classic workloads on locks: a set is read, kept for a while
// and written back under a lock, so that two holders show as lost updates. A halted
// process does not know that it was halted, so workloads that trust the Grant alone lose
// updates with any lock service.
//
//	ZKGRANT_REAL=1 go test ./coordinator/reliability/histories
package histories
