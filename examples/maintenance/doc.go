// Command maintenance asks a long job for its lock, and the job comes to a safe point before it gives it back.
//
// A job copies one table after the other under a lock, and may stop between two of them. An operator wants the lock for
// maintenance: he asks for it with a grace, and queues up for it. The job hears by when it has to be done, finishes the
// table at hand if there is time for that, and releases the lock. A job that is too slow has lost the lock at the deadline, and
// abandons the table. Then the operator has the lock, and gives it back; the job goes on where it was.
//
//	go run ./examples/maintenance                     on a server inside the program
//	go run ./examples/maintenance -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/maintenance -table 3s           a job that is too slow
//
// The file to start from is job.go.
package main
