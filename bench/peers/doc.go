// Package peers finds what zkgrant is measured against, and runs it: a real ZooKeeper server, Apache Curator on Java, and contenders for
// a lock in their own processes.
//
// The script bench/deps fetches what can be fetched; this package looks where the script puts it. The package owns the processes that it
// starts. They end with Close, and also when the program dies: then the kernel kills a server (on Linux), and a contender reads the end
// of its input.
//
// Contenders of different libraries and languages differ only in their command lines. They print a line for each piece of news, and this
// package stamps each line by one clock when it arrives. That delays all of them by the same fraction of a millisecond.
package peers
