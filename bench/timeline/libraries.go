package main

// The libraries that are compared, as they are called on the command line and in the file of figures.
const (
	keyCurator = "curator"
	keyStock   = "go-zookeeper"
	keyOurs    = "zkgrant"
)

// library is one of those that are compared.
type library struct {
	Key  string // in the file of figures, and on the command line
	Name string // in the picture
	API  string // what was used of it
}

// libraries are all of them, in the order of the picture.
func libraries() []library {
	return []library{
		{Key: keyCurator, Name: "Apache Curator", API: "InterProcessMutex"},
		{Key: keyStock, Name: "go-zookeeper", API: "zk.Lock"},
		{Key: keyOurs, Name: "zkgrant", API: "Mutex"},
	}
}
