import { isIP } from 'node:net';

/** Whether a text is an IP address or a network in CIDR notation, such as `10.0.0.0/8`. */
export function isAddressOrNetwork(text: string): boolean {
  const [address = '', prefix, ...more] = text.split('/');
  const family = isIP(address);
  // A zone (`fe80::1%eth0`) names an interface of this machine, which no network elsewhere has.
  if (family === 0 || more.length > 0 || address.includes('%')) return false;
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128));
}
