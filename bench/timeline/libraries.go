package main

// The keys of the libraries, on the command line and in the file of figures.
const (
	keyCurator = "curator"
	keyStock   = "go-zookeeper"
	keyOurs    = "zkgrant"
)

// library is one of the compared libraries.
type library struct {
	Key  string // in the file of figures, and on the command line
	Name string // in the picture
	API  string // what is used of it
}

// libraries are all libraries, in the order of the picture.
func libraries() []library {
	return []library{
		{Key: keyCurator, Name: "Apache Curator", API: "InterProcessMutex"},
		{Key: keyStock, Name: "go-zookeeper", API: "zk.Lock"},
		{Key: keyOurs, Name: "zkgrant", API: "Mutex"},
	}
}
