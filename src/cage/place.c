#include "cage/place.h"

#include "cage/addresses.h"
#include "cage/nat64.h"

err_t place_read(const struct host *h, enum net net, struct place *ret) {
    own_place struct place p = {0};
    for (unsigned i = 0; i < h->nnets; i++) {
        words_add(&p.cages, h->nets[i].subnet);
        if (h->nets[i].gateway[0]) /* a network without a way out has none */
            words_add(&p.gates, h->nets[i].gateway);
    }
    if (net == NET_SEALED) {
        TRY(addresses_read(&p.local));
        nat64_discover(&p.local, &p.local);
    }
    p.nft = (struct nft_place){
        .cages = words_argv(&p.cages), .gates = words_argv(&p.gates), .local = words_argv(&p.local)};
    *ret = p;
    p = (struct place){0};
    return NULL;
}

void place_upstream(struct place *p, const char *address, uint16_t port) {
    words_add(&p->upstream, address ? address : "0.0.0.0/0");
    if (!address)
        words_add(&p->upstream, "::/0");
    p->nft.upstream = words_argv(&p->upstream);
    p->nft.upstream_port = port;
    p->nft.dns = !address;
}

void place_own_port(struct place *p, uint16_t port) {
    p->own_port = port;
    p->nft.ports = &p->own_port;
    p->nft.nports = port ? 1 : 0;
}

void place_free(struct place *p) {
    words_free(&p->cages);
    words_free(&p->gates);
    words_free(&p->local);
    words_free(&p->upstream);
    *p = (struct place){0};
}
