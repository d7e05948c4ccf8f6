module github.com/zkgrant/zkgrant/bench

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/zkgrant/zkgrant v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
)

replace github.com/zkgrant/zkgrant => ..
