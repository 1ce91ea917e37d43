import { dataOf, type Gateway } from './gateway.ts';

/** Names of the services that the cluster serves. */
export async function servicesOf(gateway: Gateway): Promise<ReadonlySet<string>> {
  const reply = await gateway.send({ name: 'services', method: 'GET', path: '/v1' });
  return new Set(dataOf<{ services: string[] }>('GET /v1', reply, 200).services);
}
