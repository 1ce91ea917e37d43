import { BlockList, isIP } from 'node:net';

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
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (prefix === undefined) proxies.addAddress(address, family);
    else proxies.addSubnet(address, Number(prefix), family);
  }
  return (peer, forwardedFor) => {
    const address = plain(peer);
    const family = isIP(address);
    if (family === 0 || !proxies.check(address, family === 6 ? 'ipv6' : 'ipv4')) return address;
    const hop = plain(forwardedFor?.split(',').at(-1)?.trim() ?? '');
    return isIP(hop) === 0 ? address : hop;
  };
}

/** An IPv4 address in IPv6's clothes, as a socket that listens on both gives it, is an IPv4 address. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}
