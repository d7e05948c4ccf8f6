// Command crowd measures many sessions that hold a lock each, on an ensemble of three real servers.
//
//	bench/deps                       # Java and ZooKeeper, if they are not there
//	cd bench && go run ./crowd       # ten minutes; writes CROWD.md, crowd.json and crowd.svg
//	go run ./crowd -quick -o quick   # 100 sessions instead of 1,000, in less than two minutes
//	go run ./crowd -draw             # writes CROWD.md and crowd.svg again, without measuring
package main
