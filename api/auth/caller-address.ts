import { BlockList, isIPv6 } from 'node:net';
import { readAddress } from '#infra/net/ip-address.ts';

/** Returns the address under which a caller's wrong passwords are counted. */
export type CallerAddress = (peer: string, forwardedFor: string | undefined) => string;

/**
 * Returns a function that reads the caller's address. It is the socket's peer; if the peer is a trusted proxy, it is the last
 * hop in `X-Forwarded-For`, because the caller can forge earlier hops. `trusted`: addresses and CIDR ranges.
 */
export function openCallerAddress(trusted: readonly string[]): CallerAddress {
  const proxies = new BlockList();
  for (const entry of trusted) {
    const [address = '', prefix] = entry.split('/');
    if (prefix === undefined) proxies.addAddress(address, familyOf(address));
    else proxies.addSubnet(address, Number(prefix), familyOf(address));
  }
  return (peer, forwardedFor) => {
    const address = readAddress(peer);
    if (address === null || !proxies.check(address, familyOf(address))) return address ?? peer;
    return readAddress(forwardedFor?.split(',').at(-1)?.trim() ?? '') ?? address;
  };
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}
