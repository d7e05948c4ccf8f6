// Package peers finds what zkgrant is measured against, and runs it: a real ZooKeeper server, Apache Curator on Java,
// and contenders for a lock in processes of their own.
//
// The script bench/deps fetches what can be fetched; this package looks where the script puts it. It owns the
// processes that it starts: they end with Close, and also when the program that started them dies, for a server is
// then killed by the kernel (on Linux) and a contender reads the end of its input.
//
// Contenders of any library, in any language, are told apart by nothing but their command line. They print a line for
// each thing that they are told, and each line is stamped here, by one clock, when it arrives. That costs every one of
// them the same fraction of a millisecond.
package peers
