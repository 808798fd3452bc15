import { Widget } from '@lumino/widgets';

import { IGpuShareModel } from './model';
import { Kernel } from './wire';

/** The kernel behind the document in front, where it is one of this server's. */
export function currentKernel(model: IGpuShareModel, widget: Widget | null): Kernel | null {
  const id = widget && kernelIdOf(widget);
  return model.snapshot?.kernels.find(kernel => kernel.id === id) ?? null;
}

/** What we need of a document's session. */
export interface IDocumentSession {
  readonly session?: { readonly kernel?: { readonly id?: unknown } | null } | null;
  shutdown?: () => Promise<void>;
}

/** Notebooks and consoles alike keep their kernel in a `sessionContext`; we need no more of them than that. */
export function sessionOf(widget: Widget): IDocumentSession | null {
  const holder: { sessionContext?: IDocumentSession } & Widget = widget;
  return holder.sessionContext ?? null;
}

export function kernelIdOf(widget: Widget): string | null {
  const id = sessionOf(widget)?.session?.kernel?.id;
  return typeof id === 'string' ? id : null;
}
