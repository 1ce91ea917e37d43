import { isIPv4, isIPv6 } from 'node:net';

/** An IPv4 address that came through an IPv6 socket. */
const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const GROUPS = 8;
/** A provider gives a household a /64: within it, addresses cost nothing. */
const COUNTED_GROUPS = 4;
/** What is no address stays bounded as a key. */
const LONGEST = 64;

/** Whom failures are counted against: an IPv4 address, or an IPv6 network as `2001:db8:0:1::/64`. */
export function countedAs(address: string): string {
  const bare = address.replace(/%.*$/, '');
  const mapped = MAPPED.exec(bare)?.[1] ?? bare;
  if (isIPv4(mapped)) return mapped;
  if (!isIPv6(bare)) return address.slice(0, LONGEST);
  return `${groupsOf(bare).slice(0, COUNTED_GROUPS).join(':')}::/64`;
}

/** The eight groups of a valid IPv6 address, without leading zeros and in lower case. */
function groupsOf(address: string): string[] {
  // A dotted tail stands for the last two groups, which are not counted.
  const [head = '', tail] = address
    .toLowerCase()
    .replace(/\d+\.\d+\.\d+\.\d+$/, '0:0')
    .split('::');
  const [before, after] = [head, tail ?? ''].map((part) => (part === '' ? [] : part.split(':')));
  const known = [...(before ?? []), ...(after ?? [])].length;
  const zeros = tail === undefined ? [] : Array.from({ length: GROUPS - known }, () => '0');
  return [...(before ?? []), ...zeros, ...(after ?? [])].map((group) => Number.parseInt(group, 16).toString(16));
}
