# Braid alone: a static binary, no shell. The configuration is mounted at /etc/braid/braid.toml.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /braid ./cmd/braid

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /braid /usr/bin/braid
USER 65532:65532
EXPOSE 3307 6032 9104
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/braid"]
CMD ["serve", "--config", "/etc/braid/braid.toml"]
