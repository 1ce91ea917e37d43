import { runtimeView } from '../../../shared/classifier/provider-view.ts';
import type { Reply } from '../../route.ts';
import type { ProviderDeps } from '../provider-deps.ts';

/** What is known of the provider of now. */
export async function readProviderStatus(deps: Pick<ProviderDeps, 'models'>): Promise<Reply> {
  return { status: 200, data: runtimeView(await deps.models.status()) };
}
