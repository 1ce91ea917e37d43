/** The address of a Redis. We parse the URL ourselves, so that both client libraries understand it in the same way. */
export interface RedisAddress {
  host: string;
  port: number;
  /** Path of a Unix socket. If it is set, host and port are ignored. */
  path?: string;
  family?: 4 | 6;
  username?: string;
  password?: string;
  db: number;
  tls: boolean;
  /** `host:port` or the socket's path, for logs. It contains no secret. */
  label: string;
}

const DEFAULT_PORT = 6379;

/**
 * Parses `redis[s]://[user][:password]@host[:port][/db][?family=4|6]` or `unix:///path/to.sock[?db=n]`. User and password are
 * percent-decoded. Throws if the URL is invalid or has another scheme. The message never quotes the URL, which may contain a
 * password.
 */
export function readRedisUrl(redisUrl: string): RedisAddress {
  if (!URL.canParse(redisUrl)) throw new Error('The Redis URL is not a URL');
  const url = new URL(redisUrl);
  const credentials = {
    ...(url.username === '' ? {} : { username: decodeURIComponent(url.username) }),
    ...(url.password === '' ? {} : { password: decodeURIComponent(url.password) }),
  };
  if (url.protocol === 'unix:') {
    const path = decodeURIComponent(url.pathname);
    const db = readDatabase(url.searchParams.get('db') ?? '');
    return { host: '', port: 0, path, ...credentials, db, tls: false, label: path };
  }
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') {
    throw new Error('The Redis URL must begin with redis://, rediss:// or unix://');
  }
  const host = url.hostname === '' ? '127.0.0.1' : url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port);
  const family = url.searchParams.get('family');
  return {
    host,
    port,
    ...(family === '4' ? { family: 4 } : family === '6' ? { family: 6 } : {}),
    ...credentials,
    db: readDatabase(url.searchParams.get('db') ?? url.pathname.slice(1)),
    tls: url.protocol === 'rediss:',
    label: `${host}:${port}`,
  };
}

function readDatabase(text: string): number {
  if (text === '') return 0;
  if (!/^\d{1,5}$/.test(text)) throw new Error('The database in the Redis URL must be a number');
  return Number(text);
}
