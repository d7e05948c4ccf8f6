// Package promtest runs a real Prometheus beside a test or a program that draws a picture, and reads dashboards for Grafana.
//
// It is for the tests of this module and may change with them. The server listens on 127.0.0.1 only, keeps its data in a folder of
// its own, and ends with the program that started it (on Linux also if that was killed).
package promtest
