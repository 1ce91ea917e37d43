import { BlockList, isIPv4, isIPv6 } from 'node:net';
import type { Call } from '#api/route.ts';
import { countedAs, networksOf, readAddress } from '#infra/net/ip-address.ts';

/** Returns the address, or the network, under which a caller is counted. */
export type CountedAddress = (call: Pick<Call, 'peer' | 'headers'>) => string;

/** Returns a function that reads the counted address of a call: an IPv4 address, or an IPv6 /64 network. */
export function openCountedAddress(trusted: readonly string[]): CountedAddress {
  const addressOf = openCallerAddress(trusted);
  return ({ peer, headers }) => countedAs(addressOf(peer, headers['x-forwarded-for']));
}

/**
 * Returns a function that reads the network of a call, which is one caller among strangers: an IPv4 address, or an IPv6 /48. A provider
 * hands out a /48 to one customer, so that 65,536 counted addresses cost nothing. A /24 of IPv4 has many customers, and a few addresses of
 * different ones are as cheap as one whole.
 */
export function openCountedNetwork(trusted: readonly string[]): CountedAddress {
  const addressOf = openCountedAddress(trusted);
  return (call) => networkOf(addressOf(call));
}

/** Returns the network of a counted address. */
export function networkOf(counted: string): string {
  const [widest = counted] = networksOf(counted);
  return isIPv4(counted) ? counted : widest;
}

type CallerAddress = (peer: string, forwardedFor: string | undefined) => string;

/**
 * Returns a function that reads the caller's address. It is the socket's peer. If the peer is a trusted proxy, the hops of
 * `X-Forwarded-For` are read from the right: each proxy appends the address of its own caller. The caller can forge the rest.
 * The first hop that is no trusted proxy is the caller; if all are trusted, it is the leftmost one. A malformed hop
 * ends the walk at the proxy that wrote it. `trusted`: addresses and CIDR ranges.
 */
export function openCallerAddress(trusted: readonly string[]): CallerAddress {
  const isProxy = openProxies(trusted);
  return (peer, forwardedFor) => {
    let caller = readAddress(peer);
    if (caller === null) return peer;
    const hops = forwardedFor?.split(',') ?? [];
    while (isProxy(caller)) {
      const hop = addressOfHop(hops.pop() ?? '');
      if (hop === null) break;
      caller = hop;
    }
    return caller;
  };
}

/** An address with a port, as some proxies append it: `198.51.100.1:50312` or `[2001:db8::1]:443`. */
const WITH_PORT = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d{1,5})?$/;

/** Returns the address of a hop, or null if it is malformed. */
function addressOfHop(hop: string): string | null {
  const text = hop.trim();
  const [, bracketed, dotted] = WITH_PORT.exec(text) ?? [];
  return readAddress(bracketed ?? dotted ?? text);
}

/** Returns the network under which a connection from this peer is counted, or null if none counts it. */
export type CountedPeer = (peer: string) => string | null;

/**
 * Returns a function that reads the counted network of a connection. A trusted proxy's connections carry the requests of many callers
 * and count for no network. Without any trusted proxy no connection counts, because each may come from a gateway.
 */
export function openCountedPeer(trusted: readonly string[]): CountedPeer {
  if (trusted.length === 0) return () => null;
  const isProxy = openProxies(trusted);
  return (peer) => {
    const address = readAddress(peer);
    return address === null || isProxy(address) ? null : networkOf(countedAs(address));
  };
}

function openProxies(trusted: readonly string[]): (address: string) => boolean {
  const proxies = new BlockList();
  for (const entry of trusted) {
    const [address = '', prefix] = entry.split('/');
    if (prefix === undefined) proxies.addAddress(address, familyOf(address));
    else proxies.addSubnet(address, Number(prefix), familyOf(address));
  }
  return (address) => proxies.check(address, familyOf(address));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}
