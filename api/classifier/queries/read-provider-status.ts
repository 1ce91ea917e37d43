import type { ProviderDeps } from '#api/classifier/provider-deps.ts';
import type { Reply } from '#api/route.ts';
import { runtimeView } from '#shared/classifier/provider/setting.ts';

/** What is known of the provider of now. */
export async function readProviderStatus(deps: Pick<ProviderDeps, 'models'>): Promise<Reply> {
  return { status: 200, data: runtimeView(await deps.models.status()) };
}
