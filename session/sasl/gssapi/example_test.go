package gssapi_test

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/sasl/gssapi"
)

func ExampleKeytab() {
	connect := func(ctx context.Context) (*coordinator.Coordinator, error) {
		mechanism, err := gssapi.Keytab("app@EXAMPLE.COM", "/etc/app.keytab")
		if err != nil {
			return nil, err // no such file, or no such key in it
		}
		c, err := coordinator.Connect(ctx, "zk1.example.com:2181,zk2.example.com:2181",
			coordinator.WithSASL(mechanism),
			coordinator.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "app@EXAMPLE.COM"}}))
		return c, err
	}
	_ = connect // it takes a KDC
}
