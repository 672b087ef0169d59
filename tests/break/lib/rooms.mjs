// The one fleet that the files of tests/break/rooms share: the pods `pod` and `other`, and `bare`.
import fs from 'node:fs';
import { Fleet } from '../../e2e/lib/fleet.mjs';

export const fleet = await Fleet.start();
const project = fleet.path('project');
fs.mkdirSync(project);
fs.chownSync(project, 61234, 61234);
fleet.new('pod', '--project', project);
fleet.new('other');
fleet.new('bare', '--mode', 'bare');
