// Package board serves a web page that shows the locks below a path: their holders, since when each one holds, and their waiters.
//
// [New] makes an http.Handler, which can be mounted below any prefix:
//
//	locks, err := board.New(c, "/locks")
//	if err != nil {
//		return err
//	}
//	mux.Handle("/board/", http.StripPrefix("/board", locks))
//	server.RegisterOnShutdown(locks.Close) // else Shutdown waits for the open pages
//
// The page has no external part. Its data come as server-sent events, and as JSON at
// queues.json. The board searches for locks and watches those that it found, once however
// many pages are open, and only while one is open.
//
// The board shows paths and data to every client that can reach it: put the service's own authentication around it. It changes nothing in
// ZooKeeper, unless [WithRevoke] is given.
//
// docs/board.md has a picture, the cost, and the rest.
package board
