// Command crowd measures many sessions that hold a lock each, on an ensemble of three
// real servers.
//
//	bench/deps                      # Java and ZooKeeper, if they are missing
//	cd bench && go run ./crowd      # eight minutes; writes CROWD.md, crowd.json, crowd.svg
//	go run ./crowd -quick -o quick  # 100 sessions instead of 1,000; two minutes
//	go run ./crowd -draw            # writes CROWD.md and crowd.svg without measuring
//
// The sessions run in as many processes as fit into half of the free memory, or in
// -processes. With 1,000 sessions, T is 10 s and the tick 2 s. Servers and sessions share
// the machine. The command refuses to start if a server could run out of file
// descriptors.
//
//   - Writes: the answered transactions that a session's hook reports, which are probes
//     while a lock is held. Their time is from the first byte sent to the last one
//     received.
//   - CPU time: of each server's process and of all processes of the crowd, as reported
//     by the kernel.
//   - Gap: the longest time between two answered writes of a holding session. It includes
//     up to one probe interval.
//   - Killed leader: it is restarted once every session has received an answer without
//     it.
//   - Rolling restart: each server is killed and restarted at once, the leader last. The
//     next one follows once all servers serve again and every session has received an
//     answer.
//   - Storm: each process closes its connections, and refuses to dial until the nodes of
//     all sessions are gone, as a client close to the servers sees it. The losses that
//     the holders receive are compared with that moment, by the machine's clock: before
//     its node is gone, no other contender can hold the lock. Then all dial again,
//     expire, and queue again: for a lock each, and all for one lock, which is then
//     handed on from the first to the last.
//   - Knee: ever larger crowds hold, in 20 processes, until one is not served. Then the
//     range between the last two is bisected twice.
//
// words.go defines the orders to the processes and their reports.
package main
