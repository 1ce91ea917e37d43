import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * Returns the IP address in a text, or null if the text is not one. The zone of an IPv6 address is removed, because it has a meaning
 * only on this host. An IPv4-mapped IPv6 address, which a dual-stack socket reports, becomes the plain IPv4 address.
 */
export function readAddress(text: string): string | null {
  if (isIPv4(text)) return text;
  if (!isIPv6(text)) return null;
  const address = text.replace(/%.*$/, '');
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : address;
}

/** Returns the eight groups of an IPv6 address that `readAddress` has returned. */
export function groupsOf(address: string): number[] {
  return ipaddr.IPv6.parse(address).parts;
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
