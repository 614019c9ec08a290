package repo

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// azureHosts are the suffixes of the names of the hosts for which Azure issues tokens.
var azureHosts = []string{".blob.core.windows.net", ".blob.storage.azure.net", ".blob.core.usgovcloudapi.net", ".blob.core.chinacloudapi.cn"}

// azureScope is the scope of tokens for blobs.
const azureScope = "https://storage.azure.com/.default"

// connect creates the client. A key or signature is only sent to the endpoint that it was configured with. The tokens of the environment
// are only sent to Azure; other endpoints get requests without credentials.
func (a *Azure) connect(ctx context.Context, endpoint *url.URL, o AzureOptions, options *container.ClientOptions) (err error) {
	address := a.endpoint + "/" + url.PathEscape(a.bucket)
	if o.KeyFile != "" {
		b, err := readSecret(o.KeyFile)
		if err != nil {
			return fmt.Errorf("--%sazure-key-file: %w", o.Flags, err)
		}
		return a.connectWith(address, endpoint, strings.TrimSpace(string(b)), o, options)
	}
	if endpoint.Scheme != "https" || !isAzure(endpoint.Hostname()) {
		a.anonymous = true
		a.client, err = container.NewClientWithNoCredential(address, options)
		return err
	}
	ambient, err := azidentity.NewDefaultAzureCredential(nil)
	if err == nil {
		rctx, cancel := context.WithTimeout(ctx, tokenTimeout)
		defer cancel()
		_, err = ambient.GetToken(rctx, policy.TokenRequestOptions{Scopes: []string{azureScope}}) // now rather than at the first blob
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("no Azure credentials, give --%sazure-key-file, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or run on a machine or in a pod that has an identity: %s", o.Flags, sentence(err.Error()))
	}
	a.client, err = container.NewClient(address, ambient, options)
	return err
}

// connectWith creates the client from the content of a file: the key of an account, or a shared access signature.
func (a *Azure) connectWith(address string, endpoint *url.URL, secret string, o AzureOptions, options *container.ClientOptions) (err error) {
	file := "--" + o.Flags + "azure-key-file " + o.KeyFile
	if strings.Contains(secret, "sig=") {
		query := strings.TrimPrefix(secret, "?")
		fields, err := url.ParseQuery(query)
		if err != nil || strings.ContainsAny(query, " \r\n?") {
			return fmt.Errorf("%s: want one shared access signature, such as sv=…&sig=…", file)
		}
		a.ends = signatureEnds(fields.Get("se"))
		if endpoint.Scheme != "https" && !isLoopback(endpoint.Hostname()) {
			return fmt.Errorf("--%sazure-endpoint %s has no TLS, so that the signature of %s could be read on the way: give an https:// address", o.Flags, endpoint, file)
		}
		a.client, err = container.NewClientWithNoCredential(address+"?"+query, options)
		return err
	}
	if _, err := base64.StdEncoding.DecodeString(secret); err != nil || secret == "" {
		return fmt.Errorf("%s: want the key of the storage account as the portal shows it, or a shared access signature", file)
	}
	if o.Account == "" {
		return fmt.Errorf("%s: a key is one of an account, give --%sazure-account", file, o.Flags)
	}
	key, err := container.NewSharedKeyCredential(o.Account, secret)
	if err != nil {
		return errors.New(file + ": not the key of a storage account")
	}
	a.client, err = container.NewClientWithSharedKeyCredential(address, key, options)
	return err
}

// signatureEnds parses when a shared access signature expires; zero for an unknown form, and for a signature whose end a policy of the
// container has.
func signatureEnds(stated string) time.Time {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04Z", time.DateOnly} {
		if at, err := time.Parse(form, stated); err == nil {
			return at
		}
	}
	return time.Time{}
}

// isAzure reports whether a host is one of Azure's blob hosts.
func isAzure(host string) bool {
	for _, end := range azureHosts {
		if strings.HasSuffix(host, end) {
			return true
		}
	}
	return false
}
