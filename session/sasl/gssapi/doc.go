// Package gssapi authenticates a session with Kerberos, through the SASL mechanism
// GSSAPI. ZooKeeper servers with a Krb5LoginModule offer it. It is for coordinator's
// WithSASL.
//
//	mechanism, err := gssapi.Keytab("app@EXAMPLE.COM", "/etc/app.keytab")
//	…
//	c, err := coordinator.Connect(ctx, "zk1.example.com:2181", coordinator.WithSASL(mechanism))
//
// Each exchange authenticates both sides to each other. It does not protect what follows:
// use TLS for that.
//
// # Tickets
//
// When a connection is made, the mechanism requests a ticket for the server, with two or
// three requests to the KDC. A keytab's ticket is kept for the next connection to the
// same server, until shortly before it expires or a server refuses it. The keytab is read
// at each request for a ticket, and the credential cache at each connection. So an
// expired ticket needs no handling: the next connection gets a new one, as long as the
// keytab is right or something renews the cache. A session that stays connected needs no
// ticket. Nothing runs in the background.
//
// # The server's principal
//
// It is zookeeper/HOST, where HOST is the server's name in the connect string, in lower
// case. Neither DNS nor the name of a proxy changes it; see [ServerPrincipal] and
// [CanonicalHost]. Its realm is the host's realm in [domain_realm] of krb5.conf, or else
// the client's own.
//
// # krb5.conf
//
// gokrb5 reads it, once. It supports [libdefaults], [realms] and [domain_realm], but not
// include or includedir. KDCs are contacted by TCP, in the listed order. If a realm lists
// none, they are looked up in DNS. Credential caches are files.
package gssapi
