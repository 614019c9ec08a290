package config

import (
	"os"
	"strings"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
)

// Files are the NDJSON files of an import.
type Files struct {
	_    struct{} `group:"Files" section:"import"`
	From string   `flag:"from" check:"place" help:"NDJSON files to import, compare or read again instead of a snapshot, where they are: file:///path, a path, s3://bucket/prefix, gs://bucket/prefix, or azblob://container/prefix"`
}

// NewIndices selects the handling of indices that the target lacks.
type NewIndices struct {
	_      struct{} `group:"Windows" section:"import"`
	Create bool     `flag:"create-indices" help:"create missing indices, as the export describes them or else with the target's defaults and templates (without it a missing index ends the import)"`
}

// Windows are the parts into which an import divides files.
type Windows struct {
	_           struct{} `group:"Windows" section:"import"`
	NewIndices  NewIndices
	Size        int64         `flag:"window-size" default:"67108864" min:"1024" max:"1099511627776" help:"bytes of a window of an uncompressed file"`
	Lease       time.Duration `flag:"window-lease" default:"1m" min:"2s" max:"1h" help:"how long a window is leased at first; the rest is handed off then"`
	MaxAttempts int           `flag:"max-attempts" default:"10" min:"1" max:"1000" help:"attempts in a row without progress after which a window is worked on alone, and may be given up"`
}

// Node is one machine's part of a migration.
type Node struct {
	_           struct{} `group:"Node" section:"daemon"`
	Name        string   `flag:"node-name" help:"name of this node (default: the host's)"`
	Workers     Workers  `flag:"workers" default:"auto" want:"auto, none, or a whole number from 1 to 256" help:"workers of this node: a number, auto (processors, memory, and how busy the target is), or none (the node reports, serves the API and drives --scale-driver)"`
	MaxWorkers  int      `flag:"max-workers" default:"64" min:"1" max:"256" help:"maximum number of workers of this node, regardless of the fleet's wanted number"`
	Memory      Size     `flag:"worker-memory" default:"1GiB" max:"1024GiB" want:"a size such as 512MB or 1GiB, at least 64MiB, or 0" help:"memory of each worker process, as 1GiB or 512MB; a worker that exceeds 1.5 times this size is ended (0: no limit)"`
	EndWhenDone bool     `flag:"exit-when-done" help:"end when no work is left"`
}

// leastMemory is the memory that a worker needs, in bytes.
const leastMemory = 64 << 20

// Check refuses less memory than a worker needs, and names a node without a name.
func (n *Node) Check() error {
	if n.Memory != 0 && n.Memory < leastMemory {
		return Usage("invalid --worker-memory %d: want at least 64MiB, or 0 for no limit", n.Memory)
	}
	if n.Name == "" {
		var err error
		if n.Name, err = os.Hostname(); err != nil || n.Name == "" {
			return Usage("this machine has no name: give --node-name")
		}
	}
	return nil
}

// Events selects the recipients of events.
type Events struct {
	_           struct{} `group:"Events" section:"events"`
	Webhook     string   `flag:"webhook" check:"url" help:"URL to which each event is posted as JSON"`
	WebhookFile string   `flag:"webhook-file" check:"file" help:"file holding the URL, when it is a secret"`
	Command     []string `flag:"command" help:"program that is run for each event, with the event as JSON on its standard input; further entries are its arguments"`
}

// Check reads the URL from its file.
func (e *Events) Check() error {
	if e.WebhookFile == "" {
		return nil
	}
	b, err := os.ReadFile(e.WebhookFile)
	if err != nil {
		return Usage("--webhook-file: %w", err)
	}
	e.Webhook = strings.TrimSpace(string(b))
	if !strings.HasPrefix(e.Webhook, "https://") && !strings.HasPrefix(e.Webhook, "http://") {
		return Usage("--webhook-file: the file holds no URL such as https://host/path")
	}
	return nil
}

// TLS is the identity of this program for nodes of a fleet.
type TLS struct {
	_     struct{} `group:"API" section:"api"`
	Cert  string   `flag:"tls-cert" check:"file" help:"PEM file of the certificate of this node, operator or reader (rfsctl cert create)"`
	Key   string   `flag:"tls-key" check:"file" help:"PEM file of its key"`
	CA    string   `flag:"tls-ca" check:"file" help:"PEM file of the fleet's authority"`
	Fleet FleetName
}

// FleetName is the name of a fleet.
type FleetName struct {
	_    struct{} `group:"API" section:"api" variable:"yes"`
	Name string   `flag:"fleet" default:"rfsd" check:"name" help:"name of the fleet in its certificates: a–z, 0–9 and -"`
}

// Files returns the files of the identity.
func (t TLS) Files() cert.Files { return cert.Files{Cert: t.Cert, Key: t.Key, CA: t.CA} }

// Check refuses certificates that are named in part.
func (t *TLS) Check() error {
	files := t.Files()
	if files == (cert.Files{}) || files.Complete() {
		return nil
	}
	var missing []string
	for _, x := range [][2]string{{"--tls-cert", t.Cert}, {"--tls-key", t.Key}, {"--tls-ca", t.CA}} {
		if x[1] == "" {
			missing = append(missing, x[0])
		}
	}
	return Usage("--tls-cert, --tls-key and --tls-ca belong together: %s is missing", strings.Join(missing, " and "))
}

// Identity loads the certificates; nil without.
func (t TLS) Identity() (*cert.Identity, error) {
	if !t.Files().Complete() {
		return nil, nil
	}
	return cert.Load(t.Files(), t.Fleet.Name)
}

// API holds the settings of a node's API.
type API struct {
	_            struct{} `group:"API" section:"api"`
	Socket       string   `flag:"socket" default:"auto" help:"Unix socket of operators (mode 0660, group rfsd-operators where there is one); off: none; auto: operator.sock in the service's RUNTIME_DIRECTORY, else none"`
	StatusSocket string   `flag:"status-socket" default:"auto" help:"Unix socket that reports to every user of this machine and takes no orders; values as of --socket (auto: status.sock)"`
	Listen       string   `flag:"listen" check:"address" help:"HOST:PORT of the API; beyond loopback only with --tls-cert, --tls-key and --tls-ca; on loopback without them every local user may read"`
	Advertise    string   `flag:"advertise" check:"address" help:"HOST:PORT by which other nodes reach the API (default: the address of --listen)"`
	TLS          TLS
	Hosts        []string `flag:"allowed-hosts" help:"further HOST:PORT by which browsers and clients reach the API; may be repeated"`
}

// Check refuses certificates without an address.
func (a *API) Check() error {
	if a.TLS.Files().Complete() && a.Listen == "" {
		return Usage("certificates are named, but no --listen HOST:PORT to use them on")
	}
	if a.Advertise == "" {
		a.Advertise = a.Listen
	}
	return nil
}

// Fleet configures how nodes find each other.
type Fleet struct {
	_          struct{} `group:"Fleet: gossip between nodes" section:"fleet"`
	Listen     string   `flag:"gossip-listen" check:"address" help:"host:port (TCP and UDP) on which nodes find each other, such as 0.0.0.0:7946; none: this node uses the coordination store only"`
	Advertise  string   `flag:"gossip-advertise" check:"address" help:"host:port at which other nodes reach --gossip-listen (default: the same)"`
	Keys       string   `flag:"gossip-keys" check:"file" help:"file of the fleet's keys (rfsctl cert gossip-key), needed beyond loopback; SIGHUP reads it again"`
	Join       []string `flag:"join" help:"where nodes are: host:port, dns:NAME, or provider=aws tag_key=K tag_value=V; the node list in the coordination store is always asked too"`
	Zone       string   `flag:"zone" help:"availability zone of this machine: voters are spread over them"`
	Spot       bool     `flag:"spot" help:"this machine may be terminated at any time (spot instance): it is the last to get a vote in Raft"`
	DataDir    string   `flag:"data-dir" help:"directory of the hints' files (default: hints in the one systemd gives, else ~/.local/state/rfsd); it may be deleted at any time"`
	Share      bool     `flag:"share-settings" section:"none" help:"make this node's settings the fleet's, over those that are stored (the first node of a session stores its own in any case)"`
	OneMachine bool     `flag:"one-machine" help:"short intervals between nodes, for a fleet on one machine"`
}

// ConfigFile is the file of a node's settings.
type ConfigFile struct {
	_    struct{} `group:"Node"`
	Name string   `flag:"config" check:"file" help:"configuration file"`
}

// Planning selects the checks of rfsd plan.
type Planning struct {
	_         struct{} `group:"Processing"`
	Only      Sections `flag:"only" help:"examine only these of changes,sizes,versions,access,disks,limits (default: all that the options make possible)"`
	Documents bool     `flag:"documents" help:"also count documents, which takes a few more requests per shard"`
	Version   string   `flag:"target-version" check:"version" help:"instead of a target: changes on an empty OpenSearch of that version"`
}

// FleetKey is the key by which shared settings are believed.
type FleetKey struct {
	_    struct{} `group:"Coordination" section:"coordination"`
	File string   `flag:"fleet-key" check:"file" help:"sign the settings of the fleet with the key in this file, the same on all nodes; without it a node takes nothing from the store that moves data or credentials (default: --gossip-keys)"`
}
