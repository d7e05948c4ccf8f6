// Package board serves a web page of the locks below a path: their holders, how long each
// one has held, and their waiters.
//
// [New] returns an http.Handler, which can be mounted below any prefix:
//
//	locks, err := board.New(c, "/locks")
//	if err != nil {
//		return err
//	}
//	mux.Handle("/board/", http.StripPrefix("/board", locks))
//	server.RegisterOnShutdown(locks.Close) // else Shutdown waits for the open pages
//
// The page loads nothing from other hosts. Its data are sent as server-sent events, and
// as JSON at queues.json. The board searches for locks and watches those that it found,
// once however many pages are open, and only while at least one is.
//
// The board shows paths and data to every client that can reach it, so protect it with
// your service's own authentication. It changes nothing in ZooKeeper, unless [WithRevoke]
// is given.
//
// docs/board.md has a picture, the cost, and the details.
package board
