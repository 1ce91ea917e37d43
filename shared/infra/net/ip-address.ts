import { isIPv4, isIPv6 } from 'node:net';

const GROUPS = 8;
/** Where an IPv4 address lies in an IPv6 one: behind five groups of zeros and this (RFC 4291, 2.5.5.2). */
const MAPPED = [0, 0, 0, 0, 0, 0xffff];

/**
 * The address that a text names; null when it names none. An IPv6 one loses its zone, which only means something on this host, and
 * an IPv4 one in IPv6's clothes, as a socket that listens on both gives it, is taken out of them, however they are spelled.
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

/** The eight groups of an IPv6 address as readAddress gives it. */
export function groupsOf(address: string): number[] {
  const [head = '', tail] = address.split('::');
  const before = groupsIn(head);
  if (tail === undefined) return before;
  const after = groupsIn(tail);
  return [...before, ...Array.from({ length: GROUPS - before.length - after.length }, () => 0), ...after];
}

/** A dotted tail stands for two groups. */
function groupsIn(part: string): number[] {
  if (part === '') return [];
  return part.split(':').flatMap((text) => {
    if (!text.includes('.')) return [Number.parseInt(text, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number);
    return [a * 256 + b, c * 256 + d];
  });
}
