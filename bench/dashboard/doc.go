// Command dashboard draws the panels of zkprom's dashboard.json as a picture for the docs, with what a real Prometheus has scraped from
// a run on real servers. Three coordinators, each standing for a process, wait, hold, are cut off and are asked for a lock.
//
// It is not Grafana: the expressions, titles, units and places of the panels are the dashboard's, and the drawing is this program's.
package main
