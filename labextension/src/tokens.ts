import { Token } from '@lumino/coreutils';

import { IPanelActions } from './actions';
import { IGpuShareModel } from './model';
import { ParkingFlow } from './parking_flow';
import { ReleaseFlow } from './release_flow';

/** What our plugins share: the model, the ways to release and to park, and what the application does for us. */
export interface IGpuShare {
  readonly model: IGpuShareModel;
  readonly flow: ReleaseFlow;
  readonly parking: ParkingFlow;
  readonly actions: IPanelActions;
}

export const IGpuShare = new Token<IGpuShare>(
  'jupyter-gpushare:IGpuShare',
  'The live GPU share of this server, and releasing it.'
);
