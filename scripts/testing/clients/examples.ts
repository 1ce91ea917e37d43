import { registerHooks } from 'node:module';

// Examples name the package, as its users do. Here it is this source.
const SOURCE = new URL('../../../clients/typescript/src/index.ts', import.meta.url).href;
registerHooks({ resolve: (name, context, next) => next(name === '@examhall/client' ? SOURCE : name, context) });

export const { openGateway } = await import('../../../examples/gateway.ts');
export const { sitExam } = await import('../../../examples/start-exam.ts');
