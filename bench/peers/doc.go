// Package peers finds the libraries and servers that zkgrant is compared with, and runs
// them: a real ZooKeeper server, Apache Curator on Java, and contenders for a lock in
// their own processes.
//
// The script bench/deps downloads them, and this package looks where the script puts
// them. The package owns the processes that it starts. They end with Close, and also when
// the program dies: then the kernel kills a server (on Linux), and a contender reads the
// end of its input.
//
// Contenders of different libraries and languages differ only in their command lines.
// They print a line for each event, and this package stamps each line with the same clock
// when it arrives. That delays all of them by the same fraction of a millisecond.
package peers
