import { IPanelActions } from '../actions';
import { Kernel } from '../wire';

/** An application that remembers what it was asked to do. */
export class SeenActions implements IPanelActions {
  readonly seen: string[] = [];

  release(asked?: Kernel): void {
    this.seen.push(`release ${asked?.id ?? ''}`.trim());
  }

  resume(): void {
    this.seen.push('resume');
  }

  cancelCells(): void {
    this.seen.push('cancel');
  }

  openKeepMenu(): void {
    this.seen.push('keep');
  }

  keepFromEnding(kernelId: string | null): void {
    this.seen.push(`keep from ending ${kernelId ?? 'all'}`);
  }

  showDetails(): void {
    this.seen.push('details');
  }

  changeShare(): void {
    this.seen.push('request');
  }

  openNotebook(path: string): void {
    this.seen.push(`open ${path}`);
  }

  openRowMenu(row: Kernel): void {
    this.seen.push(`menu ${row.id}`);
  }

  openSettings(): void {
    this.seen.push('settings');
  }

  retry(): void {
    this.seen.push('retry');
  }
}
