package zkprom_test

import (
	"context"
	"log"
	"net/http"
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkprom"
)

func Example() {
	ctx, registry := context.Background(), prometheus.NewRegistry()
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	m := zkprom.New()
	registry.MustRegister(m)
	c, err := coordinator.Connect(ctx, "zk1:2181,zk2:2181/app", coordinator.WithHooks(m))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

func ExampleWithLockLabel() {
	m := zkprom.New(zkprom.WithLockLabel(func(lock string) string {
		return path.Dir(lock) + "/*" // one label for all tasks of a queue; alerts about single locks leave it out
	}))
	prometheus.MustRegister(m)
}

func ExampleNewQueues() {
	registry := prometheus.NewRegistry()
	c, err := coordinator.Open("zk1:2181,zk2:2181/app")
	if err != nil {
		log.Fatal(err)
	}
	registry.MustRegister(zkprom.NewQueues(c, "/locks"))
}

func ExampleNew_second() {
	registry := prometheus.NewRegistry()
	for _, cluster := range []string{"east", "west"} {
		m := zkprom.New()
		prometheus.WrapRegistererWith(prometheus.Labels{"cluster": cluster}, registry).MustRegister(m)
	}
}
