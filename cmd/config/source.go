package config

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Stores hold the connection settings of buckets.
type Stores struct {
	_     struct{} `group:"Source" section:"source"`
	S3    S3
	GCS   GCS
	Azure Azure
}

// Options returns them as a repository takes them.
func (s Stores) Options() repo.Options {
	return repo.Options{S3: s.S3.options(), GCS: s.GCS.options(""), Azure: s.Azure.options("")}
}

// State returns the place of the state of the work in a bucket that is reached by these settings.
func (s Stores) State(uri string) StateBucket {
	return StateBucket{URI: uri, Region: s.S3.Region, Endpoint: s.S3.Endpoint, PathStyle: s.S3.PathStyle, RoleARN: s.S3.RoleARN, GCS: s.GCS, Azure: s.Azure}
}

// GCS holds the connection settings of a bucket of Google Cloud Storage.
type GCS struct {
	Endpoint string `flag:"gcs-endpoint" check:"url" help:"address of Google Cloud Storage, if not Google's"`
	KeyFile  string `flag:"gcs-key-file" check:"file" help:"JSON key file of a Google service account"`
}

func (g GCS) options(flags string) repo.GCSOptions {
	return repo.GCSOptions{Endpoint: g.Endpoint, KeyFile: g.KeyFile, Flags: flags}
}

// Azure holds the connection settings of a container of Azure Blob Storage.
type Azure struct {
	Account  string `flag:"azure-account" check:"name" help:"storage account of the container"`
	Endpoint string `flag:"azure-endpoint" check:"url" help:"address of the storage account, if not Azure's"`
	KeyFile  string `flag:"azure-key-file" check:"file" help:"file with a key of the account, or a SAS"`
}

func (a Azure) options(flags string) repo.AzureOptions {
	return repo.AzureOptions{Account: a.Account, Endpoint: a.Endpoint, KeyFile: a.KeyFile, Flags: flags}
}

// S3 holds the connection settings of a bucket of S3.
type S3 struct {
	Region        string `flag:"s3-region" help:"region of the bucket"`
	Endpoint      string `flag:"s3-endpoint" check:"url" help:"endpoint of an S3-compatible store"`
	PathStyle     bool   `flag:"s3-path-style" help:"address buckets by path instead of by host name"`
	RoleARN       string `flag:"s3-role-arn" help:"role to assume for reading the bucket"`
	RequesterPays bool   `flag:"s3-requester-pays" help:"pay for the requests to a requester-pays bucket"`
}

func (s S3) options() repo.S3Options {
	return repo.S3Options{Region: s.Region, Endpoint: s.Endpoint, PathStyle: s.PathStyle, RoleARN: s.RoleARN, RequesterPays: s.RequesterPays}
}

// Repository locates the snapshot.
type Repository struct {
	_       struct{} `group:"Source" section:"source"`
	URI     string   `flag:"repo-uri" check:"repository" help:"snapshot repository: a path, s3://, gs://, azblob:// or https:// (read only)"`
	Remotes []string `flag:"remote-store-uri" check:"remote" help:"URI or NAME=URI of a remote store that a shallow snapshot of OpenSearch refers to (default: the repository itself); may be repeated"`
	Stores  Stores
	Pace    ReadPace
}

// ReadPace bounds how fast a repository, or files, are read.
type ReadPace struct {
	_   struct{} `group:"Source" section:"source"`
	Max Rate     `flag:"max-read-rate" default:"0" want:"bytes per second with a unit, such as 20MiB or 20MB (0: no limit)" help:"maximum bytes per second to read from the repository or from files, such as 20MiB, for all slots, and in a fleet for all nodes together (0: no limit)"`
}

// Check refuses credentials in addresses.
func (r *Repository) Check() error {
	for _, uri := range append([]string{r.URI, r.Stores.S3.Endpoint, r.Stores.GCS.Endpoint, r.Stores.Azure.Endpoint}, r.Remotes...) {
		if secret.In("repo-uri", uri) {
			return Usage("%s: no user, password or key belongs in the address of a repository or endpoint: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, --gcs-key-file, --azure-key-file, or a role", secret.Text(uri))
		}
	}
	return nil
}

// Snapshot is the snapshot that is read.
type Snapshot struct {
	_    struct{} `group:"Source" section:"source"`
	Name string   `flag:"snapshot-name" help:"name of the snapshot to read; rfsd migrate without it creates one on --source-host"`
}

// Partial controls how incomplete sources are handled.
type Partial struct {
	_     struct{} `group:"Source" section:"source"`
	Allow bool     `flag:"allow-partial" help:"migrate a PARTIAL or FAILED snapshot without its missing parts, which are listed (exit code 7); with --from, an incomplete export"`
}

// Reading holds the options of reading shards.
type Reading struct {
	_           struct{} `group:"Source" section:"source"`
	VerifyFirst bool     `flag:"verify-first" help:"read and check each shard completely before sending anything of it (reads it twice)"`
}

// Cluster is one cluster: source, target or coordinator. Its files are of one machine.
type Cluster struct {
	Host         Hosts    `flag:"host" check:"url"`
	Username     string   `flag:"username" help:"user for basic authentication"`
	PasswordFile string   `flag:"password-file" check:"file" help:"file holding the password (or set {variable})"`
	Password     string   `flag:"password" help:"password; visible to other users of this machine, prefer the file or the variable"`
	APIKeyFile   string   `flag:"api-key-file" check:"file" help:"file holding an API key, as id:key or in base64 (or set {variable})"`
	APIKey       string   `flag:"api-key" line:"no" help:"API key, by its variable only: a command line is visible to other users of this machine, and refused"`
	TokenFile    string   `flag:"token-file" check:"file" help:"file holding a bearer token, read again when it changes (or set {variable})"`
	Token        string   `flag:"token" line:"no" help:"bearer token, by its variable only: a command line is visible to other users of this machine, and refused"`
	Headers      []string `flag:"header" want:"NAME: VALUE, or @FILE" help:"further header of each request, NAME: VALUE; or @FILE, with one in each line; may be repeated. A header that holds a credential is taken from a file only"`
	Proxy        Proxy    `flag:"proxy" want:"http://, https:// or socks5://HOST:PORT, or none" help:"proxy for the requests: http://, https:// or socks5://HOST:PORT; none for no proxy (default: HTTPS_PROXY, HTTP_PROXY and NO_PROXY)"`
	Insecure     bool     `flag:"insecure" help:"do not verify the certificate"`
	CACert       string   `flag:"cacert" check:"file" help:"PEM file of trusted CAs, instead of the system's"`
	ClientCert   string   `flag:"client-cert" check:"file" help:"PEM file of a client certificate"`
	ClientKey    string   `flag:"client-cert-key" check:"file" help:"PEM file of the client certificate's key"`
	SigV4        bool     `flag:"aws-sigv4" help:"sign requests with AWS Signature Version 4, with the credentials of the default chain"`
	Region       string   `flag:"aws-region" help:"region of the domain (default: from its host name, else AWS_REGION)"`
	Service      string   `flag:"aws-service" help:"AWS service of the signature: es, for domains, or aoss, for collections of OpenSearch Serverless (default: from the host name, else es)"`
	RoleARN      string   `flag:"aws-role-arn" help:"role to assume for the requests"`

	header http.Header // Headers, as they were read
}

// checkAs reads the password and checks settings that belong together; prefix is the prefix of the flags.
func (c *Cluster) checkAs(prefix string) error {
	for _, x := range []struct {
		file string
		into *string
		name string
	}{{c.PasswordFile, &c.Password, "password-file"}, {c.APIKeyFile, &c.APIKey, "api-key-file"}} {
		if x.file == "" {
			continue
		}
		b, err := os.ReadFile(x.file)
		if err != nil {
			return Usage("--%s%s: %w", prefix, x.name, err)
		}
		*x.into = strings.TrimRight(string(b), "\r\n")
	}
	if c.Token != "" && c.TokenFile != "" {
		return Usage("--%stoken-file and %s exclude each other", prefix, Variable(prefix+"token"))
	}
	var err error
	if c.header, err = c.headers(); err != nil {
		return Usage("--%sheader: %w", prefix, err)
	}
	if !c.SigV4 && c.Region+c.Service+c.RoleARN != "" {
		return Usage("--%saws-… need --%saws-sigv4", prefix, prefix)
	}
	if (c.ClientCert == "") != (c.ClientKey == "") {
		return Usage("--%sclient-cert and --%sclient-cert-key belong together", prefix, prefix)
	}
	return nil
}

// credentials are words in the names of headers that hold credentials.
var credentials = []string{"auth", "cookie", "key", "token", "secret", "password", "signature"}

// headers returns the further headers. Lines of a file that start with # are comments.
func (c Cluster) headers() (http.Header, error) {
	all := http.Header{}
	for _, text := range c.Headers {
		path, isFile := strings.CutPrefix(text, "@")
		if !isFile {
			name, _, _ := strings.Cut(strings.ToLower(text), ":")
			if slices.ContainsFunc(credentials, func(word string) bool { return strings.Contains(name, word) }) {
				return nil, fmt.Errorf("header %s may hold a credential, which other users of this machine would see: write it to a file and give @FILE", name)
			}
			if err := target.AddHeader(all, text); err != nil {
				return nil, err
			}
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for n, line := range strings.Split(string(b), "\n") {
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			if err := target.AddHeader(all, line); err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", path, n+1, err)
			}
		}
	}
	return all, nil
}

// Config returns the cluster as its client takes it.
func (c Cluster) Config(role, program string, connections int) target.Config {
	conf := target.Config{
		Role: role, URL: string(c.Host), Username: c.Username, Password: c.Password, APIKey: c.APIKey, Token: c.Token, TokenFile: c.TokenFile, Headers: c.header, Proxy: string(c.Proxy), Insecure: c.Insecure, CACert: c.CACert,
		ClientCert: c.ClientCert, ClientKey: c.ClientKey, MaxConnections: connections, UserAgent: program,
	}
	if c.SigV4 {
		conf.SigV4 = &target.SigV4{Region: c.Region, Service: c.Service, RoleARN: c.RoleARN}
	}
	return conf
}

// Origin is the source cluster, and how the snapshot is created there.
type Origin struct {
	_                  struct{} `group:"Source cluster" section:"source-cluster"`
	Cluster            Cluster  `prefix:"source-" help:"URL of the source cluster: the snapshot is created there; may be repeated, for several addresses of that cluster"`
	Repository         string   `flag:"snapshot-repo-name" default:"rfsd" help:"name under which the source knows the repository; it is registered if it does not exist"`
	Type               string   `flag:"source-repo-type" oneof:"fs,s3,gcs,azure," want:"fs, s3, gcs or azure" help:"type of the repository on the source (default: by --repo-uri)"`
	Location           string   `flag:"source-repo-location" help:"where the repository is as the source sees it: a path, or bucket/prefix (default: as in --repo-uri)"`
	Settings           Pairs    `flag:"source-repo-setting" want:"KEY=VALUE" help:"further setting of the repository on the source, KEY=VALUE, such as role_arn=…; may be repeated"`
	MaxRate            string   `flag:"snapshot-max-rate" check:"byterate" help:"maximum bytes per second that each node of the source writes, such as 40mb"`
	WithoutGlobalState bool     `flag:"without-global-state" help:"leave the cluster's state (templates and the like) out of the snapshot"`
	NoWait             bool     `flag:"snapshot-no-wait" help:"start the snapshot, or check it once; while the source makes it, exit with code 4 (default: wait for it)"`
	Retry              bool     `flag:"retry-snapshot" help:"after a failed snapshot, create another, whose name ends with -2, and with the next number each time the command runs; rfsd follow does so in any case"`
}

// Check refuses a name that no repository can have.
func (o *Origin) Check() error {
	if o.Repository == "" || strings.ContainsAny(o.Repository, "/*?\"<>| ,#") {
		return Usage("invalid --snapshot-repo-name %q: want a name without blanks and / * ? \" < > | , #", o.Repository)
	}
	return nil
}
