// Package peers finds and runs the libraries and servers that zkgrant is compared with: a
// real ZooKeeper server, Apache Curator on Java, and contenders for a lock in their own
// processes.
//
// The script bench/deps downloads them, and this package looks where the script puts
// them. Close ends the processes that the package has started. If the program dies, the
// kernel kills the servers (on Linux), and the contenders reach the end of their input.
//
// Contenders of different libraries and languages differ only in their command lines.
// They print a line for each event, and this package timestamps the lines with one clock
// when they arrive. That delays all of them by the same fraction of a millisecond.
package peers
