package objectserver

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

// Package and version of the server that InstallAzurite installs.
const (
	azuriteVersion = "3.37.0"
	azuriteFolder  = "azurite-" + azuriteVersion
	azuriteProgram = "node_modules/.bin/azurite-blob"
)

// InstallAzurite returns the path of Azurite, and installs it in the user's cache if it is missing. It needs Node.js with npm.
func InstallAzurite(ctx context.Context) (string, error) {
	return install(azuriteFolder, azuriteProgram, func(dir string) *exec.Cmd {
		root := filepath.Dir(filepath.Dir(dir))
		return exec.CommandContext(ctx, "npm", "install", "--prefix", root, "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "azurite@"+azuriteVersion)
	})
}

// Azurite is a running server of Azure Blob Storage.
type Azurite struct {
	Account  string
	Endpoint string // includes the account
	KeyFile  string // file with the key of the account
	client   *azblob.Client
}

// StartAzurite starts an empty server with a container "bucket". It skips the test if the server is not installed.
func StartAzurite(t testing.TB) Azurite {
	t.Helper()
	bin, err := Binary(azuriteFolder, azuriteProgram)
	if err != nil {
		t.Skipf("no server of Azure Blob Storage: %v", err)
	}
	a := Azurite{Account: "rfsdtest", KeyFile: filepath.Join(t.TempDir(), "key")}
	key := base64.StdEncoding.EncodeToString([]byte("a key that only this server knows"))
	if err := os.WriteFile(a.KeyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	address := Run(t, func(host, port string) *exec.Cmd {
		// The SDK requests a protocol version newer than the server, but uses none of its features.
		cmd := exec.Command(bin, "--blobHost", host, "--blobPort", port, "--location", at, "--silent", "--skipApiVersionCheck", "--disableTelemetry")
		cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+a.Account+":"+key)
		return cmd
	})
	a.Endpoint = "http://" + address + "/" + a.Account
	credential, err := azblob.NewSharedKeyCredential(a.Account, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.client, err = azblob.NewClientWithSharedKeyCredential(a.Endpoint, credential, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.CreateContainer(t.Context(), "bucket", nil); err != nil {
		t.Fatal(err)
	}
	return a
}

// Signature returns a shared access signature that permits to read and list the container for a time.
func (a Azurite) Signature(t testing.TB, lasts time.Duration) string {
	t.Helper()
	address, err := a.client.ServiceClient().NewContainerClient("bucket").GetSASURL(sas.ContainerPermissions{Read: true, List: true}, time.Now().Add(lasts), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, signature, _ := strings.Cut(address, "?")
	return signature
}

// Put writes a blob of the container.
func (a Azurite) Put(t testing.TB, name string, body []byte) {
	t.Helper()
	if _, err := a.client.UploadBuffer(t.Context(), "bucket", name, body, nil); err != nil {
		t.Fatal(err)
	}
}
