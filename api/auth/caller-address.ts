import { BlockList, isIPv6 } from 'node:net';
import { readAddress } from '#infra/net/ip-address.ts';

/** The address by which a caller is counted. */
export type CallerAddress = (peer: string, forwardedFor: string | undefined) => string;

/**
 * The socket's peer, or, when that is one of our own proxies, the last hop that it names in `X-Forwarded-For`: earlier ones are
 * the caller's own words. `trusted` are addresses and CIDR ranges.
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
