// Package board serves a page that shows who holds each lock, and who waits for it.
package board
