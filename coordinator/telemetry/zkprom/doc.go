// Package zkprom exports a coordinator's locks as Prometheus metrics.
//
//	m := zkprom.New()
//	registry.MustRegister(m)
//	c, err := coordinator.Connect(ctx, servers, coordinator.WithHooks(m))
//
// [New] measures the locks of one coordinator, through its hooks. [NewQueues] measures
// the locks below a path, for all processes: it reads their queues when it is scraped.
// The folder has a Grafana dashboard (dashboard.json) and alert rules (rules.yml).
// docs/observability.md lists the metrics.
package zkprom
