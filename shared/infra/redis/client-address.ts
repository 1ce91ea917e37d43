import { isIPv4 } from 'node:net';
import { groupsOf, readAddress } from '#infra/net/ip-address.ts';

/** A provider gives a household a /64: within it, addresses cost nothing. */
const COUNTED_GROUPS = 4;
/** What is no address stays bounded as a key. */
const LONGEST = 64;

/** Whom failures are counted against: an IPv4 address, or an IPv6 network as `2001:db8:0:1::/64`. */
export function countedAs(text: string): string {
  const address = readAddress(text);
  if (address === null) return text.slice(0, LONGEST);
  if (isIPv4(address)) return address;
  const network = groupsOf(address).slice(0, COUNTED_GROUPS);
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}
