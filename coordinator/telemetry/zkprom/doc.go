// Package zkprom exports what a coordinator's locks do as Prometheus metrics.
//
//	m := zkprom.New()
//	registry.MustRegister(m)
//	c, err := coordinator.Connect(ctx, servers, coordinator.WithHooks(m))
//
// [New] is for the locks of one coordinator, told by its hooks. [NewQueues] is for the locks below a path as every process sees them: it
// looks at their queues when it is scraped. The folder has a dashboard for Grafana (dashboard.json) and alert rules (rules.yml).
// docs/observability.md has the table of the metrics.
package zkprom
