// The rooms of two pods and of a bare agent, in one fleet: what runs there and how (rooms/posture.mjs), who is connected to whom
// (rooms/links.mjs), what they must refuse (rooms/boundary.mjs).
import './rooms/posture.mjs';
import './rooms/links.mjs';
import './rooms/boundary.mjs';
