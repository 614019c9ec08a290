package repo

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
)

func (a *Azure) put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	rctx, cancel := context.WithTimeout(ctx, putTimeout(a.stall, size))
	defer cancel()
	if _, err := a.upload(rctx, name, body, size, nil); err != nil {
		return a.failed(ctx, verbPut, name, err)
	}
	return nil
}

func (a *Azure) putIf(ctx context.Context, name string, body []byte, version string) (is string, err error) {
	var condition *blob.AccessConditions
	if version == "" {
		none := azcore.ETagAny
		condition = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &none}}
	} else {
		condition = ifMatch(version)
	}
	is, err = a.upload(ctx, name, bytes.NewReader(body), int64(len(body)), condition)
	var r *azcore.ResponseError
	switch {
	case err != nil && ctx.Err() == nil && errors.As(err, &r) && (r.StatusCode == http.StatusPreconditionFailed || r.ErrorCode == "BlobAlreadyExists" || r.ErrorCode == "BlobNotFound"):
		return "", fmt.Errorf("put %s: %w", name, fs.ErrExist)
	case err != nil:
		return "", a.failed(ctx, verbPut, name, err)
	}
	return is, nil
}

// upload writes a blob with its checksum, which the store verifies.
func (a *Azure) upload(ctx context.Context, name string, body io.ReadSeeker, size int64, condition *blob.AccessConditions) (version string, err error) {
	sum := md5.New() //nolint:gosec // the checksum of the protocol
	if _, err := io.CopyN(sum, body, size); err != nil {
		return "", err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	out, err := a.blocks(name).Upload(ctx, streaming.NopCloser(body), &blockblob.UploadOptions{AccessConditions: condition, TransactionalValidation: blob.TransferValidationTypeMD5(sum.Sum(nil))})
	if err != nil {
		return "", err
	}
	return etag(out.ETag), nil
}

func (a *Azure) blocks(name string) *blockblob.Client {
	return a.client.NewBlockBlobClient(a.prefix + name)
}

// azurePage is the number of names in a page of Objects.
const azurePage = 1000

func (a *Azure) names(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error) {
	for item, err := range a.items(ctx, prefix, after) {
		if err != nil {
			return nil, nil, false, err
		}
		name, below := strings.CutPrefix(*item.Name, a.prefix)
		if !below || name <= after || isFolder(item) {
			continue
		}
		if len(names) == azurePage {
			return names, versions, true, nil
		}
		version := ""
		if item.Properties != nil {
			version = listedETag(item.Properties.ETag)
		}
		names, versions = append(names, name), append(versions, version)
	}
	return names, versions, false, nil
}

// listedETag returns the version in an entry of a listing in the form of headers, with quotation marks.
func listedETag(tag *azcore.ETag) string {
	version := etag(tag)
	if version == "" || strings.HasPrefix(version, `"`) {
		return version
	}
	return `"` + version + `"`
}

func (a *Azure) delete(ctx context.Context, name string) error {
	_, err := a.client.NewBlobClient(a.prefix+name).Delete(ctx, nil)
	if err == nil {
		return nil
	}
	if err = a.failed(ctx, "delete", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (a *Azure) date(ctx context.Context, name string) (time.Time, error) {
	out, err := a.client.NewBlobClient(a.prefix+name).GetProperties(ctx, nil)
	if err != nil {
		return time.Time{}, a.failed(ctx, "head", name, err)
	}
	if out.Date == nil {
		return time.Time{}, nil
	}
	return *out.Date, nil
}
