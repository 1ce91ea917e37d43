import { isIPv4, isIPv6 } from 'node:net';

const GROUPS = 8;
/** The first six groups of an IPv6 address that contains an IPv4 address (RFC 4291, 2.5.5.2). */
const MAPPED = [0, 0, 0, 0, 0, 0xffff];

/**
 * Returns the IP address in a text, or null if the text is not one. The zone of an IPv6 address is removed, because it has a meaning
 * only on this host. An IPv4-mapped IPv6 address, which a dual-stack socket reports, becomes the plain IPv4 address.
 */
export function readAddress(text: string): string | null {
  if (isIPv4(text)) return text;
  if (!isIPv6(text)) return null;
  const address = text.replace(/%.*$/, '');
  const groups = groupsOf(address);
  if (!MAPPED.every((group, index) => groups[index] === group)) return address;
  return groups
    .slice(MAPPED.length)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.');
}

/** Returns the eight groups of an IPv6 address that `readAddress` has returned. */
export function groupsOf(address: string): number[] {
  const [head = '', tail] = address.split('::');
  const before = groupsIn(head);
  if (tail === undefined) return before;
  const after = groupsIn(tail);
  return [...before, ...Array.from({ length: GROUPS - before.length - after.length }, () => 0), ...after];
}

/** Returns the groups of one side of `::`. A dotted IPv4 tail is two groups. */
function groupsIn(part: string): number[] {
  if (part === '') return [];
  return part.split(':').flatMap((text) => {
    if (!text.includes('.')) return [Number.parseInt(text, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number);
    return [a * 256 + b, c * 256 + d];
  });
}

/** Groups of an IPv6 address that are counted: a /64. A household usually owns a whole /64, so an attacker gets more addresses in it for free. */
const COUNTED_GROUPS = 4;
/** Maximum length of a key that is not an IP address, in characters. */
const MAX_KEY_LENGTH = 64;

/** Returns the key under which failures are counted: an IPv4 address, or an IPv6 network as `2001:db8:0:1::/64`. */
export function countedAs(text: string): string {
  const address = readAddress(text);
  if (address === null) return text.slice(0, MAX_KEY_LENGTH);
  if (isIPv4(address)) return address;
  const network = groupsOf(address).slice(0, COUNTED_GROUPS);
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}

/**
 * Returns the networks that contain a counted address, the widest first, the address itself last. A provider hands out a /48 or /56 to
 * one customer, who could otherwise appear as 65,536 strangers. IPv4: /24 and address. Any other key is alone.
 */
export function networksOf(counted: string): string[] {
  if (isIPv4(counted)) return [`${counted.slice(0, counted.lastIndexOf('.'))}.0/24`, counted];
  const prefix = counted.replace(/\/64$/, '');
  if (prefix === counted || !isIPv6(prefix)) return [counted];
  const [a = 0, b = 0, c = 0, d = 0] = groupsOf(prefix);
  const [site, part] = [
    [a, b, c],
    [a, b, c, d & 0xff00],
  ];
  const named = (groups: readonly number[], bits: number) =>
    `${groups.map((group) => group.toString(16)).join(':')}::/${bits}`;
  return [named(site, 48), named(part, 56), counted];
}
