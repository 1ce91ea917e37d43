import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';

/** An SMTP server that listens on 127.0.0.1. */
export interface LocalMail {
  server: SMTPServer;
  port: number;
  close(): Promise<void>;
}

/** An e-mail as it arrived. */
export interface ArrivedMail {
  /** Addresses of the envelope. */
  from: string;
  to: readonly string[];
  /** The whole e-mail as it arrived. */
  raw: string;
}

/** Opens an SMTP server on a port of 127.0.0.1; 0: any free one. By default it requires no login and offers no STARTTLS. */
export async function listenForMail(options: SMTPServerOptions, port = 0): Promise<LocalMail> {
  const server = new SMTPServer({
    logger: false,
    hideSTARTTLS: true,
    authOptional: true,
    disableReverseLookup: true,
    closeTimeout: 1,
    ...options,
  });
  // A client that leaves in the middle is no error. The wait below throws what prevents the server from listening.
  server.on('error', () => undefined);
  server.listen(port, '127.0.0.1');
  await once(server.server, 'listening');
  return {
    server,
    port: (server.server.address() as AddressInfo).port,
    close: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}

/** Returns an e-mail with the addresses of its envelope. */
export function arrivedMail(raw: string, { mailFrom, rcptTo }: SMTPServerSession['envelope']): ArrivedMail {
  return { from: mailFrom === false ? '' : mailFrom.address, to: rcptTo.map(({ address }) => address), raw };
}

/** Returns the headers of an e-mail by their names in lower case, unfolded. Repeats are joined by a line break. */
export function mailHeaders(raw: string): Map<string, string> {
  const headers = new Map<string, string>();
  const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ');
  for (const line of head.split('\r\n')) {
    const [name = '', ...value] = line.split(':');
    const known = headers.get(name.toLowerCase());
    const text = value.join(':').trim();
    headers.set(name.toLowerCase(), known === undefined ? text : `${known}\n${text}`);
  }
  return headers;
}
