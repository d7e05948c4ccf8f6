// Command leaderhttp is a web service of several instances, of which one at a time
// answers: the others say who that is.
//
// Each instance is a candidate of one election, and says its address there. POST
// /orders is for the leader; from any other instance, which observes the election, it is
// answered with 503 and the leader's address, in the header Leader and in the body. A
// handler that is under way when the term is lost finds its request's context cancelled, with
// the loss as its cause; and it asks once more whether the term is valid before it does
// what cannot be undone. GET /healthz is everybody's.
//
//	go run ./examples/leaderhttp                     on a server inside the program
//	go run ./examples/leaderhttp -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/leaderhttp -for 0              until Ctrl-C; try it with curl
//
// The program runs three instances and a customer, who orders from any of them,
// follows the header, and has the leader end after a second. The file to start from
// is service.go.
package main
