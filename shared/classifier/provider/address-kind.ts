/**
 * Kind of an IP address, for a call that carries a key. `forbidden`: link-local (cloud metadata), unspecified, multicast or
 * reserved; no model is ever called there. `private` and `loopback`: allowed only if the environment names the address.
 */
export type AddressKind = 'public' | 'private' | 'loopback' | 'forbidden';

/** Addresses of metadata services outside the link-local range. */
const METADATA = ['100.100.100.200', '168.63.129.16', 'fd00:ec2:0:0:0:0:0:254', 'fd20:ce:0:0:0:0:0:254'];
const METADATA_NAMES = [
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
];

type Range = readonly [first: readonly number[], bits: number, kind: AddressKind];

/** The first range that contains an address determines its kind. */
const IPV4: readonly Range[] = [
  [[169, 254], 16, 'forbidden'],
  [[0], 8, 'forbidden'],
  [[127], 8, 'loopback'],
  [[10], 8, 'private'],
  [[172, 16], 12, 'private'],
  [[192, 168], 16, 'private'],
  [[100, 64], 10, 'private'],
  [[198, 18], 15, 'private'],
  [[192, 0, 0], 24, 'forbidden'],
  // Relays of 6to4, then the three networks of documentation.
  [[192, 88, 99], 24, 'forbidden'],
  [[192, 0, 2], 24, 'forbidden'],
  [[198, 51, 100], 24, 'forbidden'],
  [[203, 0, 113], 24, 'forbidden'],
  [[224], 3, 'forbidden'],
];
/**
 * By the registry of special-purpose IPv6 addresses (RFC 6890). Only 2000::/3 is routed between networks, so that every other range is
 * forbidden. Among these are link-local (fe80::/10), multicast (ff00::/8), NAT64 with a local prefix (64:ff9b:1::/48), SIIT
 * (::ffff:0:0:0/96) and discard (100::/64). A local NAT64 prefix leads to any IPv4 address, and its length, which places that address, is unknown.
 */
const IPV6: readonly Range[] = [
  [[0xfc00], 7, 'private'],
  // Protocol assignments: Teredo, which embeds two IPv4 addresses, benchmarking, ORCHID.
  [[0x2001], 23, 'forbidden'],
  // Documentation.
  [[0x2001, 0xdb8], 32, 'forbidden'],
  [[0x3fff], 20, 'forbidden'],
  [[0x2000], 3, 'public'],
];
/**
 * IPv6 prefixes that embed an IPv4 address (mapped, compatible, NAT64, 6to4), whose kind then applies. `[prefix, index of the
 * embedded groups]`.
 */
const EMBEDDED: readonly (readonly [readonly number[], number])[] = [
  [[0, 0, 0, 0, 0, 0xffff], 6],
  [[0, 0, 0, 0, 0, 0], 6],
  [[0x64, 0xff9b, 0, 0, 0, 0], 6],
  [[0x2002], 1],
];

/**
 * Returns the kind of an address as a resolver or a URL's host name spells it; IPv6 may have brackets. Returns null if the text is
 * not an IP address.
 */
export function addressKind(text: string): AddressKind | null {
  const bare = text.replace(/^\[|\]$/g, '').replace(/%.*$/, '');
  const quad = octetsOf(bare);
  if (quad !== null) return kindOfQuad(quad);
  const groups = groupsOf(bare);
  return groups === null ? null : kindOfGroups(groups);
}

/** Returns true for a host name of a cloud's metadata service, whatever address it resolves to. */
export function isMetadataName(hostname: string): boolean {
  return METADATA_NAMES.includes(hostname.toLowerCase());
}

function kindOfQuad(octets: readonly number[]): AddressKind {
  if (METADATA.includes(octets.join('.'))) return 'forbidden';
  return IPV4.find(([first, bits]) => startsWith(octets, first, bits, 8))?.[2] ?? 'public';
}

function kindOfGroups(groups: readonly number[]): AddressKind {
  if (METADATA.includes(groups.map((group) => group.toString(16)).join(':'))) return 'forbidden';
  if (groups.slice(0, 7).every((group) => group === 0) && groups[7] === 1) return 'loopback';
  for (const [prefix, at] of EMBEDDED) {
    if (!prefix.every((group, index) => groups[index] === group)) continue;
    return kindOfEmbedded(groups, at);
  }
  // ISATAP (RFC 5214): the second half of an address of any network leads to an IPv4 address behind its router.
  const isIsatap = ((groups[4] ?? 0) & 0xfcff) === 0 && groups[5] === 0x5efe;
  if (isIsatap && kindOfEmbedded(groups, 6) !== 'public') return 'forbidden';
  return IPV6.find(([first, bits]) => startsWith(groups, first, bits, 16))?.[2] ?? 'forbidden';
}

function kindOfEmbedded(groups: readonly number[], at: number): AddressKind {
  return kindOfQuad(groups.slice(at, at + 2).flatMap((group) => [group >> 8, group & 0xff]));
}

function startsWith(parts: readonly number[], first: readonly number[], bits: number, width: number): boolean {
  return parts.every((part, index) => {
    const compared = Math.min(width, Math.max(0, bits - index * width));
    const shift = width - compared;
    return part >> shift === (first[index] ?? 0) >> shift;
  });
}

function octetsOf(text: string): number[] | null {
  if (!/^\d{1,3}(\.\d{1,3}){3}$/.test(text)) return null;
  const octets = text.split('.').map(Number);
  return octets.every((octet) => octet <= 255) ? octets : null;
}

function groupsOf(text: string): number[] | null {
  if (!/^[0-9a-f:.]*$/i.test(text) || !text.includes(':')) return null;
  const [head = '', tail, more] = text.split('::');
  const [before, after] = [groupsIn(head), groupsIn(tail ?? '')];
  const missing = 8 - before.length - after.length;
  const isWhole = tail === undefined ? missing === 0 : missing >= 1 && more === undefined;
  const groups = [...before, ...Array.from({ length: Math.max(0, missing) }, () => 0), ...after];
  return isWhole && groups.every((group) => group >= 0 && group <= 0xffff) ? groups : null;
}

/**
 * Parses one side of an IPv6 address. A dotted tail counts as two groups. An invalid group becomes NaN, which no range check
 * admits.
 */
function groupsIn(part: string): number[] {
  if (part === '') return [];
  return part.split(':').flatMap((group) => {
    const quad = octetsOf(group);
    if (quad === null) return [/^[0-9a-f]{1,4}$/i.test(group) ? Number.parseInt(group, 16) : Number.NaN];
    const [a = 0, b = 0, c = 0, d = 0] = quad;
    return [a * 256 + b, c * 256 + d];
  });
}
