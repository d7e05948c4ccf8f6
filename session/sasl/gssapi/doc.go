// Package gssapi authenticates a session by Kerberos: the SASL mechanism GSSAPI, which ZooKeeper's servers offer with a Krb5LoginModule. It is
// for coordinator's WithSASL.
//
//	mechanism, err := gssapi.Keytab("app@EXAMPLE.COM", "/etc/app.keytab")
//	…
//	c, err := coordinator.Connect(ctx, "zk1.example.com:2181", coordinator.WithSASL(mechanism))
//
// Each exchange proves both sides to each other, and does not protect what follows: TLS does that.
//
// # Tickets
//
// The mechanism asks for a ticket for a server when a connection is made, with two or three requests to the KDC. The ticket of a keytab is
// kept for the next connection to the server, until shortly before it ends or a server refuses it. The keytab is read each time a ticket is
// asked for, and the credential cache at each connection. So the end of a ticket needs no care: the next connection gets another one, as
// long as the keytab is right or something renews the cache. A session that stays connected needs no ticket. Nothing runs in the
// background.
//
// # The server's principal
//
// It is zookeeper/HOST, where HOST is the server's name in the connect string, in small letters. Neither DNS nor the name of a proxy changes
// it; see [ServerPrincipal] and [CanonicalHost]. Its realm is that of the host in [domain_realm] of krb5.conf, or the client's own.
//
// # krb5.conf
//
// gokrb5 reads it, once. It knows [libdefaults], [realms] and [domain_realm], and neither include nor includedir. KDCs are asked by TCP, in
// their order. If a realm lists none they are looked up in DNS. Credential caches are files.
package gssapi
